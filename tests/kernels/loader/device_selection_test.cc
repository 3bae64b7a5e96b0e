// SPDX-License-Identifier: Apache-2.0
// Sparse attention on a device next to the CPU device: index keys in pages, the choice of keys, and attention over the
// chosen ones, whose rows are of a size that the CUDA device gathers (kernels/cuda/attention/gathered_keys.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/api/key_selection.h"
#include "tests/kernels/loader/device_fixture.h"

namespace dunlin::kernels {
namespace {

constexpr int32_t kSparseTokens = 300;
constexpr int32_t kSparseHeads = 4;
constexpr int32_t kSparseDim = 128;
constexpr int32_t kSparseValues = 64;
constexpr int32_t kSparseTopK = 70;
constexpr int32_t kScoreHeads = 3;
constexpr int32_t kScoreDim = 16;
constexpr int32_t kSparseWords = (kSparseTokens + 31) / 32;

// Scores of small integers are exact, so that both devices choose the same keys, and often equal.
std::vector<float> SmallIntegers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(generator() % 5) - 2.0F;
  return values;
}

// The pages of one sequence, all of its tokens stored.
class SparseSequence {
 public:
  SparseSequence(Device& device, DType dtype)
      : device_(device),
        layout_(MakeKvLayout(dtype, {.num_layers = 2,
                                     .num_kv_heads = 1,
                                     .head_dim = kSparseDim,
                                     .v_head_dim = kSparseValues,
                                     .values_in_keys = true,
                                     .index_dim = kScoreDim})),
        num_pages_((kSparseTokens + layout_.tokens_per_page - 1) / layout_.tokens_per_page),
        qkv_(device, Random(int64_t{kSparseTokens} * (kSparseHeads + 1) * kSparseDim, 1)),
        queries_(device, SmallIntegers(int64_t{kSparseTokens} * kScoreHeads * kScoreDim, 2)),
        keys_(device, SmallIntegers(int64_t{kSparseTokens} * kScoreDim, 3)),
        weights_(device, SmallIntegers(int64_t{kSparseTokens} * kScoreHeads, 4)),
        pages_(device, Descending(num_pages_)),
        pool_(device, std::vector<unsigned char>(static_cast<size_t>(num_pages_) * layout_.page_bytes, 0xFF)) {
    Store();
  }

  struct Rows {
    std::vector<uint32_t> selected;  // [count, kSparseWords]
    std::vector<float> out;          // [count, kSparseHeads, kSparseValues]
  };
  Rows Attend(int32_t first, int32_t count, AttentionBackend backend) const {
    const Array<SequenceSpan> span(device_, {{0, count, first, 0}});
    const Array<uint32_t> selected(device_, std::vector<uint32_t>(static_cast<size_t>(count * kSparseWords)));
    const Array<float> scores(device_, std::vector<float>(static_cast<size_t>(kSelectionRows * (first + count)), NAN));
    const SelectKeysParams select{.queries = queries_.data() + int64_t{first} * kScoreHeads * kScoreDim,
                                  .weights = weights_.data() + int64_t{first} * kScoreHeads,
                                  .num_heads = kScoreHeads,
                                  .top_k = kSparseTopK,
                                  .kv_pool = pool_.data(),
                                  .layout = layout_,
                                  .layer = 1,
                                  .page_table = pages_.data(),
                                  .page_table_stride = num_pages_,
                                  .sequences = span.data(),
                                  .num_sequences = 1,
                                  .num_rows = count,
                                  .max_kv_tokens = first + count,
                                  .scores = scores.data(),
                                  .selected = selected.data(),
                                  .selected_stride = kSparseWords};
    EXPECT_EQ(device_.ops->select_keys(device_.context, select), KernelStatus::kOk);
    const AttentionTraits traits{.dtype = layout_.dtype,
                                 .head_dim = kSparseDim,
                                 .num_heads = kSparseHeads,
                                 .num_kv_heads = 1,
                                 .v_head_dim = kSparseValues,
                                 .values_in_keys = true};
    const size_t bytes = device_.ops->paged_attention_workspace(
        device_.context, backend,
        {.traits = traits, .max_query_tokens = count, .max_kv_tokens = first + count, .selected_keys = kSparseTopK});
    const Array<unsigned char> workspace(device_, std::vector<unsigned char>(bytes, 0xFF));
    const Array<float> out(device_, std::vector<float>(static_cast<size_t>(count * kSparseHeads * kSparseValues), NAN));
    PagedAttentionParams attention{};
    attention.backend = backend;
    attention.query = qkv_.data() + int64_t{first} * (kSparseHeads + 1) * kSparseDim;
    attention.query_stride = int64_t{kSparseHeads + 1} * kSparseDim;
    attention.out = out.data();
    attention.kv_pool = pool_.data();
    attention.num_pages = num_pages_;
    attention.layout = layout_;
    attention.layer = 1;
    attention.num_heads = kSparseHeads;
    attention.page_table = pages_.data();
    attention.page_table_stride = num_pages_;
    attention.sequences = span.data();
    attention.num_sequences = 1;
    attention.num_one_token_sequences = count == 1 ? 1 : 0;
    attention.num_rows = count;
    attention.max_query_tokens = count;
    attention.max_kv_tokens = first + count;
    attention.scale = 0.1F;
    attention.selection = {.bits = selected.data(), .stride = kSparseWords, .most = kSparseTopK};
    attention.workspace = workspace.data();
    attention.workspace_bytes = bytes;
    EXPECT_EQ(device_.ops->paged_attention(device_.context, attention), KernelStatus::kOk);
    return {selected.Read(), out.Read()};
  }

 private:
  static std::vector<int32_t> Descending(int32_t count) {
    std::vector<int32_t> pages(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) pages[static_cast<size_t>(i)] = count - 1 - i;
    return pages;
  }
  void Store() {
    std::vector<int32_t> page;
    std::vector<int32_t> slot;
    for (int32_t token = 0; token < kSparseTokens; ++token) {
      page.push_back(num_pages_ - 1 - token / layout_.tokens_per_page);
      slot.push_back(token % layout_.tokens_per_page);
    }
    const Array<int32_t> token_page(device_, page);
    const Array<int32_t> token_slot(device_, slot);
    const RotateAndStoreKvParams kv{.qkv = qkv_.data(),
                                    .cos_sin = nullptr,
                                    .rotary_dim = 0,
                                    .num_heads = kSparseHeads,
                                    .kv_pool = pool_.data(),
                                    .layout = layout_,
                                    .layer = 1,
                                    .token_page = token_page.data(),
                                    .token_slot = token_slot.data(),
                                    .num_tokens = kSparseTokens};
    EXPECT_EQ(device_.ops->rotate_and_store_kv(device_.context, kv), KernelStatus::kOk);
    const StoreIndexKeysParams index{.queries = queries_.data(),
                                     .keys = keys_.data(),
                                     .cos_sin = nullptr,
                                     .rotary_dim = 0,
                                     .neighbours = false,
                                     .num_heads = kScoreHeads,
                                     .kv_pool = pool_.data(),
                                     .layout = layout_,
                                     .layer = 1,
                                     .token_page = token_page.data(),
                                     .token_slot = token_slot.data(),
                                     .num_tokens = kSparseTokens};
    EXPECT_EQ(device_.ops->store_index_keys(device_.context, index), KernelStatus::kOk);
    EXPECT_EQ(device_.ops->synchronize(device_.context), KernelStatus::kOk);
  }

  Device& device_;
  const KvLayout layout_;
  const int32_t num_pages_;
  const Array<float> qkv_;
  const Array<float> queries_;
  const Array<float> keys_;
  const Array<float> weights_;
  const Array<int32_t> pages_;
  const Array<unsigned char> pool_;
};

class DeviceSelectionTest : public DeviceTest {};

TEST_P(DeviceSelectionTest, RowsChooseAndAttendAsOnTheCpu) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const SparseSequence on_cpu(*cpu_, dtype);
    const SparseSequence on_device(*device_, dtype);
    for (const AttentionBackend backend : {AttentionBackend::kFlash, AttentionBackend::kEfficient}) {
      SCOPED_TRACE(std::string(Name(backend)) + " " + Name(dtype));
      const SparseSequence::Rows expected = on_cpu.Attend(0, kSparseTokens, backend);
      const SparseSequence::Rows rows = on_device.Attend(0, kSparseTokens, backend);
      ASSERT_EQ(rows.selected, expected.selected);
      for (size_t i = 0; i < rows.out.size(); ++i) ASSERT_NEAR(rows.out[i], expected.out[i], 3e-2) << i;
      // A row that decodes, and rows of a chunk.
      for (const int32_t count : {1, 9}) {
        const SparseSequence::Rows last = on_device.Attend(kSparseTokens - count, count, backend);
        EXPECT_TRUE(std::equal(last.out.rbegin(), last.out.rend(), rows.out.rbegin())) << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceSelectionTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSelectionTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
