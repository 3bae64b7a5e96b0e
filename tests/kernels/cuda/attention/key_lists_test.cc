// SPDX-License-Identifier: Apache-2.0
// The lists of chosen keys (gathered_keys.h): the rows of a pool that they name, by addresses, the slots of rows that
// no sequence has, and the memory that they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <vector>

#include "kernels/cuda/attention/gathered_keys.h"
#include "tests/kernels/attention/devices.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::PoisonedMemory;

constexpr size_t kGiB = size_t{1} << 30;

// One sequence in the last page of a pool, all of whose keys its last token chooses.
struct LastPage {
  LastPage(const KvLayout& layout, int32_t num_pages)
      : page(num_pages - 1),
        bits(static_cast<uint32_t>((uint64_t{1} << layout.tokens_per_page) - 1)),
        span{0, 1, layout.tokens_per_page - 1, 0},
        params{} {
    // No byte of it is read.
    params.kv_pool = reinterpret_cast<const void*>(uintptr_t{1} << 44);
    params.num_pages = num_pages;
    params.layout = layout;
    params.num_heads = layout.shape.num_kv_heads;
    params.page_table = &page;
    params.page_table_stride = 1;
    params.sequences = &span;
    params.num_sequences = 1;
    params.num_rows = 1;
    params.max_query_tokens = 1;
    params.max_kv_tokens = layout.tokens_per_page;
    params.selection = {.bits = &bits, .stride = 1, .most = layout.tokens_per_page};
  }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;

  int32_t page;
  uint32_t bits;
  SequenceSpan span;
  PagedAttentionParams params;
};

int32_t LargestGatheredPool(const KvLayout& layout) {
  int64_t gathered = 0;
  int64_t masked = int64_t{INT32_MAX} + 1;
  while (masked - gathered > 1) {
    const int64_t middle = (gathered + masked) / 2;
    const LastPage last(layout, static_cast<int32_t>(middle));
    (GathersKeys(last.params) ? gathered : masked) = middle;
  }
  return static_cast<int32_t>(gathered);
}

// Of every KV head, as the call itself has them.
void ExpectSameRows(const KvLayout& layout, int32_t num_pages) {
  const LastPage last(layout, num_pages);
  const AttentionCall call = CallOf(last.params);
  PoisonedMemory lists(GatheredListBytes(layout.tokens_per_page));
  const KeyListCall gather = KeyListCallOf(call, 0, 1, lists.data());
  LaunchListKeys(gather, nullptr);
  EXPECT_TRUE(lists.Intact());
  const AttentionCall gathered = GatheredCallOf(call, gather);
  const SequenceView of_lists = gathered.Sequence(0);
  const SequenceView of_pages = call.Sequence(0);
  ASSERT_EQ(of_lists.kv_len, layout.tokens_per_page);
  for (int32_t head = 0; head < call.num_kv_heads; ++head) {
    const KvRows keys = RowsOf(gathered, gathered.keys, of_lists, head);
    const KvRows values = RowsOf(gathered, gathered.values, of_lists, head);
    for (int32_t key = 0; key < of_lists.kv_len; ++key) {
      ASSERT_EQ(keys.Row(key), RowsOf(call, call.keys, of_pages, head).Row(key)) << key;
      ASSERT_EQ(values.Row(key), RowsOf(call, call.values, of_pages, head).Row(key)) << key;
    }
  }
}

KvLayout LatentLayout(DType dtype, int32_t head_dim, int32_t index_dim, size_t page_bytes = 0,
                      int32_t num_layers = 61) {
  return MakeKvLayout(dtype,
                      {.num_layers = num_layers,
                       .num_kv_heads = 1,
                       .head_dim = head_dim,
                       .v_head_dim = head_dim - 64,
                       .values_in_keys = true,
                       .index_dim = index_dim},
                      page_bytes);
}

// With one page more the distance of the last row takes 32 bits.
TEST(KeyLists, NameEveryRowOfThePoolsThatAreGathered) {
  const KvLayout large = LatentLayout(DType::kBF16, 576, 128);
  struct Case {
    const char* name;
    KvLayout layout;
    size_t most_bytes;  // of a pool, give or take a page
  };
  for (const auto& [name, layout, most_bytes] :
       {Case{"DeepSeek V3.2, GLM 5", large, 256 * kGiB},
        // The first row of one page more has a distance of 31 bits, its last row does not.
        {"one of its layers in a page", LatentLayout(DType::kBF16, 576, 128, 0, 1), 256 * kGiB},
        {"all of them in FP32", LatentLayout(DType::kF32, 576, 128), 512 * kGiB},
        {"rows of 168 bytes", LatentLayout(DType::kBF16, 84, 16), 16 * kGiB},
        {"pages with a tail", LatentLayout(DType::kBF16, 576, 128, large.page_bytes + 48), 32 * kGiB},
        {"heads of keys and values", MakeKvLayout(DType::kF16, {.num_layers = 3, .num_kv_heads = 2, .head_dim = 96}),
         384 * kGiB}}) {
    SCOPED_TRACE(name);
    const int32_t largest = LargestGatheredPool(layout);
    const size_t bytes = static_cast<size_t>(largest) * layout.page_bytes;
    EXPECT_LT(bytes, most_bytes + layout.page_bytes);
    EXPECT_GT(bytes + layout.page_bytes, most_bytes);
    ExpectSameRows(layout, 1);
    ExpectSameRows(layout, largest);
    const auto page_bytes = static_cast<int64_t>(layout.page_bytes);
    const int64_t row_bytes = layout.shape.head_dim * static_cast<int64_t>(SizeOf(layout.dtype));
    const int64_t beyond = largest * page_bytes + (layout.tokens_per_page - 1) * row_bytes;
    EXPECT_GT(beyond / std::gcd(page_bytes, row_bytes), INT32_MAX);
  }
  EXPECT_FALSE(GathersKeys({})) << "no choice";
}

// Sequences in any order, rows between them that none has, and lists that are full to the last slot.
TEST(KeyLists, RowsOfNoSequenceAreEmpty) {
  constexpr int32_t kMost = 5;
  constexpr int32_t kRows = kGatheredRows + 40;
  const KvLayout layout = LatentLayout(DType::kBF16, 576, 128);
  const SequenceSpan spans[] = {
      {.query_start = 1000, .query_len = 64, .first_position = 4, .page_table_row = 0},
      {.query_start = 7, .query_len = 0, .first_position = 9, .page_table_row = 2},
      {.query_start = 7, .query_len = 1, .first_position = 69, .page_table_row = 1},
      {.query_start = 10, .query_len = 900, .first_position = 4, .page_table_row = 2},
  };
  constexpr int32_t kPages = 57;
  std::vector<int32_t> pages(3 * kPages);
  std::iota(pages.begin(), pages.end(), 0);
  // Every row chooses the keys 0, 1, 2, 3 and its own.
  const int32_t stride = (904 + 31) / 32;
  std::vector<uint32_t> bits(static_cast<size_t>(kRows * stride));
  const auto choose = [&](int32_t row, int32_t key) {
    bits[static_cast<size_t>(row * stride + key / 32)] |= 1U << (key % 32);
  };
  PagedAttentionParams params{};
  params.num_pages = 3 * kPages;
  params.layout = layout;
  params.num_heads = 1;
  params.page_table = pages.data();
  params.page_table_stride = kPages;
  params.sequences = spans;
  params.num_sequences = static_cast<int32_t>(std::size(spans));
  params.max_kv_tokens = 904;
  params.selection = {.bits = bits.data(), .stride = stride, .most = kMost};
  std::vector<int32_t> position(kRows, -1);
  std::vector<int32_t> table(kRows, 0);
  for (const SequenceSpan& span : spans) {
    for (int32_t i = 0; i < span.query_len; ++i) {
      position[static_cast<size_t>(span.query_start + i)] = span.first_position + i;
      table[static_cast<size_t>(span.query_start + i)] = span.page_table_row;
      for (const int32_t key : {0, 1, 2, 3, span.first_position + i}) choose(span.query_start + i, key);
    }
  }
  const AttentionCall call = CallOf(params);
  for (const int32_t first : {0, 40}) {
    PoisonedMemory lists(GatheredListBytes(kMost));
    const KeyListCall gather = KeyListCallOf(call, first, kGatheredRows, lists.data());
    LaunchListKeys(gather, nullptr);
    EXPECT_TRUE(lists.Intact()) << "wrote past the lists";
    const AttentionCall gathered = GatheredCallOf(call, gather);
    for (int32_t slot = 0; slot < kGatheredRows; ++slot) {
      const auto row = static_cast<size_t>(first + slot);
      ASSERT_EQ(gather.rows[slot].query_len, position[row] < 0 ? 0 : 1) << row;
      if (position[row] < 0) continue;
      ASSERT_EQ(gather.rows[slot].query_start, static_cast<int32_t>(row));
      const SequenceView view = gathered.Sequence(slot);
      ASSERT_EQ(view.kv_len, kMost);
      const int32_t page = pages[static_cast<size_t>(table[row] * kPages + position[row] / layout.tokens_per_page)];
      ASSERT_EQ(view.pages[kMost - 1] * gathered.page_bytes,
                page * static_cast<int64_t>(layout.page_bytes) +
                    position[row] % layout.tokens_per_page * call.keys.row_bytes);
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
