// SPDX-License-Identifier: Apache-2.0
// Sparse attention on a device next to the CPU device: index keys in pages of a ragged batch, the choice of keys of its
// rows, and attention over the chosen ones, which the CUDA device gathers (kernels/cuda/attention/gathered_keys.h).
// Pages of E4M3 have no choice of keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/api/key_selection.h"
#include "tests/kernels/loader/device_fixture.h"

namespace dunlin::kernels {
namespace {

constexpr int32_t kSparseHeads = 4;
constexpr int32_t kSparseDim = 128;
constexpr int32_t kSparseRow = (kSparseHeads + 1) * kSparseDim;
constexpr int32_t kSparseValues = 64;
constexpr int32_t kSparseOut = kSparseHeads * kSparseValues;
constexpr int32_t kSparseTopK = 70;
constexpr int32_t kScoreHeads = 3;
constexpr int32_t kScoreDim = 16;
constexpr int32_t kScoreRow = kScoreHeads * kScoreDim;

// Scores of small integers are exact, so that both devices choose the same keys, and often equal.
std::vector<float> SmallIntegers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(generator() % 5) - 2.0F;
  return values;
}

// Its last query_len tokens are rows of the call. Numbers follow from the seed and the token.
struct SparseSequence {
  uint32_t seed;
  int32_t first_position;
  int32_t query_len;

  int32_t tokens() const { return first_position + query_len; }
};

// Appends `width` numbers of each token from `first` on.
void Append(const std::vector<float>& numbers, int32_t first, int32_t width, std::vector<float>* to) {
  to->insert(to->end(), numbers.begin() + int64_t{first} * width, numbers.end());
}

// The batch in the host's memory: every token of its sequences, whose pages lie in descending order, and its rows.
struct HostBatch {
  HostBatch(const KvLayout& layout, const std::vector<SparseSequence>& sequences) {
    for (const SparseSequence& sequence : sequences) max_tokens = std::max(max_tokens, sequence.tokens());
    pages_per_sequence = (max_tokens + layout.tokens_per_page - 1) / layout.tokens_per_page;
    num_pages = pages_per_sequence * static_cast<int32_t>(sequences.size());
    for (int32_t i = 0; i < num_pages; ++i) page_table.push_back(num_pages - 1 - i);
    for (size_t i = 0; i < sequences.size(); ++i) Add(layout, sequences[i], static_cast<int32_t>(i));
  }
  void Add(const KvLayout& layout, const SparseSequence& sequence, int32_t index) {
    const int32_t count = sequence.tokens();
    const int32_t first = sequence.first_position;
    const std::vector<float> heads = Random(int64_t{count} * kSparseRow, sequence.seed);
    const std::vector<float> queries = SmallIntegers(int64_t{count} * kScoreRow, sequence.seed + 1);
    Append(heads, 0, kSparseRow, &qkv);
    Append(heads, first, kSparseRow, &row_heads);
    Append(queries, 0, kScoreRow, &index_queries);
    Append(queries, first, kScoreRow, &row_queries);
    Append(SmallIntegers(int64_t{count} * kScoreDim, sequence.seed + 2), 0, kScoreDim, &index_keys);
    Append(SmallIntegers(int64_t{count} * kScoreHeads, sequence.seed + 3), first, kScoreHeads, &row_weights);
    for (int32_t token = 0; token < count; ++token) {
      const int32_t page = index * pages_per_sequence + token / layout.tokens_per_page;
      token_page.push_back(page_table[static_cast<size_t>(page)]);
      token_slot.push_back(token % layout.tokens_per_page);
    }
    spans.push_back({num_rows, sequence.query_len, first, index});
    if (sequence.query_len == 1 && num_one_token == index) ++num_one_token;
    max_query_tokens = std::max(max_query_tokens, sequence.query_len);
    num_rows += sequence.query_len;
  }

  int32_t num_rows = 0;
  int32_t num_one_token = 0;  // the first of the sequences
  int32_t num_pages = 0;
  int32_t pages_per_sequence = 0;
  int32_t max_tokens = 0;
  int32_t max_query_tokens = 0;
  std::vector<SequenceSpan> spans;
  std::vector<int32_t> page_table;
  std::vector<int32_t> token_page;  // [tokens]
  std::vector<int32_t> token_slot;
  std::vector<float> qkv;            // [tokens, kSparseRow]
  std::vector<float> row_heads;      // [num_rows, kSparseRow]
  std::vector<float> index_queries;  // [tokens, kScoreRow]
  std::vector<float> row_queries;    // [num_rows, kScoreRow]
  std::vector<float> index_keys;     // [tokens, kScoreDim]
  std::vector<float> row_weights;    // [num_rows, kScoreHeads]
};

// The batch on a device, with the choice of each of its rows.
class SparseBatch {
 public:
  SparseBatch(Device& device, DType dtype, const std::vector<SparseSequence>& sequences)
      : device_(device),
        layout_(MakeKvLayout(dtype, {.num_layers = 2,
                                     .num_kv_heads = 1,
                                     .head_dim = kSparseDim,
                                     .v_head_dim = kSparseValues,
                                     .values_in_keys = true,
                                     .index_dim = kScoreDim})),
        host_(layout_, sequences),
        words_((host_.max_tokens + 31) / 32),
        spans_(device, host_.spans),
        pages_(device, host_.page_table),
        heads_(device, host_.row_heads),
        selected_(device, std::vector<uint32_t>(static_cast<size_t>(host_.num_rows * words_))),
        pool_(device, std::vector<unsigned char>(static_cast<size_t>(host_.num_pages) * layout_.page_bytes, 0xFF)) {
    Store();
    Choose();
  }

  // [num_rows, words]; only the words up to a row's position are written.
  std::vector<uint32_t> selected() const { return selected_.Read(); }
  AttentionTraits traits() const {
    return {.dtype = layout_.dtype,
            .head_dim = kSparseDim,
            .num_heads = kSparseHeads,
            .num_kv_heads = 1,
            .v_head_dim = kSparseValues,
            .values_in_keys = true};
  }
  bool Supports(AttentionBackend backend) const {
    return device_.ops->supports_attention(device_.context, backend, traits(), nullptr);
  }
  // [num_rows, kSparseHeads, kSparseValues]. reversed: choices lie in the opposite order of the rows.
  std::vector<float> Attend(AttentionBackend backend, bool reversed = false) const {
    const PagedAttentionPlan plan{.traits = traits(),
                                  .max_query_tokens = host_.max_query_tokens,
                                  .max_kv_tokens = host_.max_tokens,
                                  .selected_keys = kSparseTopK};
    const size_t bytes = device_.ops->paged_attention_workspace(device_.context, backend, plan);
    const Array<unsigned char> workspace(device_, std::vector<unsigned char>(bytes, 0xFF));
    const Array<float> out(device_, std::vector<float>(static_cast<size_t>(host_.num_rows) * kSparseOut, NAN));
    const Array<uint32_t> choices(device_, Reversed(selected_.Read()));
    std::vector<int32_t> numbers(static_cast<size_t>(host_.num_rows));
    std::iota(numbers.rbegin(), numbers.rend(), 0);
    const Array<int32_t> rows(device_, numbers);
    PagedAttentionParams params{};
    params.backend = backend;
    params.query = heads_.data();
    params.query_stride = kSparseRow;
    params.out = out.data();
    params.kv_pool = pool_.data();
    params.num_pages = host_.num_pages;
    params.layout = layout_;
    params.layer = 1;
    params.num_heads = kSparseHeads;
    params.page_table = pages_.data();
    params.page_table_stride = host_.pages_per_sequence;
    params.sequences = spans_.data();
    params.num_sequences = static_cast<int32_t>(host_.spans.size());
    params.num_one_token_sequences = host_.num_one_token;
    params.num_rows = host_.num_rows;
    params.max_query_tokens = host_.max_query_tokens;
    params.max_kv_tokens = host_.max_tokens;
    params.scale = 0.1F;
    params.selection = {.bits = selected_.data(), .stride = words_, .most = kSparseTopK};
    if (reversed) {
      params.selection.bits = choices.data();
      params.selection.rows = rows.data();
    }
    params.workspace = workspace.data();
    params.workspace_bytes = bytes;
    EXPECT_EQ(device_.ops->paged_attention(device_.context, params), KernelStatus::kOk);
    return out.Read();
  }

 private:
  std::vector<uint32_t> Reversed(const std::vector<uint32_t>& choices) const {
    std::vector<uint32_t> reversed;
    for (int32_t row = host_.num_rows; row-- > 0;) {
      const auto first = choices.begin() + int64_t{row} * words_;
      reversed.insert(reversed.end(), first, first + words_);
    }
    return reversed;
  }
  void Store() {
    const Array<float> qkv(device_, host_.qkv);
    const Array<float> queries(device_, host_.index_queries);
    const Array<float> keys(device_, host_.index_keys);
    const Array<int32_t> token_page(device_, host_.token_page);
    const Array<int32_t> token_slot(device_, host_.token_slot);
    const auto num_tokens = static_cast<int32_t>(host_.token_page.size());
    const RotateAndStoreKvParams kv{.qkv = qkv.data(),
                                    .cos_sin = nullptr,
                                    .rotary_dim = 0,
                                    .num_heads = kSparseHeads,
                                    .kv_pool = pool_.data(),
                                    .layout = layout_,
                                    .layer = 1,
                                    .token_page = token_page.data(),
                                    .token_slot = token_slot.data(),
                                    .num_tokens = num_tokens};
    EXPECT_EQ(device_.ops->rotate_and_store_kv(device_.context, kv), KernelStatus::kOk);
    const StoreIndexKeysParams index{.queries = queries.data(),
                                     .keys = keys.data(),
                                     .cos_sin = nullptr,
                                     .rotary_dim = 0,
                                     .neighbours = false,
                                     .num_heads = kScoreHeads,
                                     .kv_pool = pool_.data(),
                                     .layout = layout_,
                                     .layer = 1,
                                     .token_page = token_page.data(),
                                     .token_slot = token_slot.data(),
                                     .num_tokens = num_tokens};
    EXPECT_EQ(device_.ops->store_index_keys(device_.context, index), KernelStatus::kOk);
    EXPECT_EQ(device_.ops->synchronize(device_.context), KernelStatus::kOk);
  }
  void Choose() {
    const Array<float> queries(device_, host_.row_queries);
    const Array<float> weights(device_, host_.row_weights);
    const Array<float> scores(device_, std::vector<float>(static_cast<size_t>(kSelectionRows * host_.max_tokens), NAN));
    const SelectKeysParams select{.queries = queries.data(),
                                  .weights = weights.data(),
                                  .num_heads = kScoreHeads,
                                  .top_k = kSparseTopK,
                                  .kv_pool = pool_.data(),
                                  .layout = layout_,
                                  .layer = 1,
                                  .page_table = pages_.data(),
                                  .page_table_stride = host_.pages_per_sequence,
                                  .sequences = spans_.data(),
                                  .num_sequences = static_cast<int32_t>(host_.spans.size()),
                                  .num_rows = host_.num_rows,
                                  .max_kv_tokens = host_.max_tokens,
                                  .scores = scores.data(),
                                  .selected = selected_.data(),
                                  .selected_stride = words_};
    EXPECT_EQ(device_.ops->select_keys(device_.context, select), KernelStatus::kOk);
    EXPECT_EQ(device_.ops->synchronize(device_.context), KernelStatus::kOk);
  }

  Device& device_;
  const KvLayout layout_;
  const HostBatch host_;
  const int32_t words_;
  const Array<SequenceSpan> spans_;
  const Array<int32_t> pages_;
  const Array<float> heads_;
  const Array<uint32_t> selected_;
  const Array<unsigned char> pool_;
};

// Of one token with its first key alone, with as many keys as it chooses, and with more; few rows, and chunks that make
// more rows than are listed at once.
const std::vector<SparseSequence>& RaggedSequences() {
  static const auto* sequences = new std::vector<SparseSequence>{{10, 299, 1}, {20, 0, 1},   {30, kSparseTopK - 1, 1},
                                                                 {40, 130, 3}, {50, 0, 700}, {60, 20, 340}};
  return *sequences;
}

class DeviceSelectionTest : public DeviceTest {};

TEST_P(DeviceSelectionTest, RowsChooseAndAttendAsOnTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const SparseBatch on_cpu(*cpu_, dtype, RaggedSequences());
    const SparseBatch on_device(*device_, dtype, RaggedSequences());
    ASSERT_EQ(on_device.selected(), on_cpu.selected()) << Name(dtype);
    for (const AttentionBackend backend : kAutoOrder) {
      SCOPED_TRACE(std::string(Name(backend)) + " " + Name(dtype));
      if (!on_device.Supports(backend)) continue;
      const std::vector<float> expected = on_cpu.Attend(backend);
      const std::vector<float> out = on_device.Attend(backend);
      ASSERT_EQ(out.size(), size_t{1046} * kSparseOut);
      const double bound = dtype == DType::kF32 ? 1e-4 : 3e-2;
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], bound) << i;
      EXPECT_EQ(on_device.Attend(backend, true), out) << "choices in another order";
    }
  }
}

// A row that decodes, and rows of chunks that begin elsewhere, have the bits that they have in the batch.
TEST_P(DeviceSelectionTest, RowsHaveTheSameBitsAloneAndAmongOthers) {
  struct Alone {
    SparseSequence sequence;
    int32_t first_row;  // in the batch
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const SparseBatch batch(*device_, dtype, RaggedSequences());
    for (const AttentionBackend backend : kAutoOrder) {
      if (!batch.Supports(backend)) continue;
      const std::vector<float> all = batch.Attend(backend);
      for (const auto& [sequence, first_row] : {Alone{{10, 299, 1}, 0},
                                                {{40, 132, 1}, 5},
                                                {{50, 600, 1}, 606},
                                                {{50, 691, 9}, 697},
                                                {{60, 299, 61}, 985}}) {
        const std::vector<float> rows = SparseBatch(*device_, dtype, {sequence}).Attend(backend);
        EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + int64_t{first_row} * kSparseOut))
            << Name(backend) << " " << Name(dtype) << " from row " << first_row;
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
