// SPDX-License-Identifier: Apache-2.0
// Entries of groups of tokens, the choice of them, and attention over a window and entries, against FP64; the bits are
// the same under any cut.
#include "kernels/api/compressed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels::compressed_attention_tests {  // apart from names of other sources in a unity batch
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr int32_t kTokens = 83;
constexpr int32_t kHeads = 3;
constexpr int32_t kDim = 12;      // of a head, and of an entry
constexpr int32_t kIndexDim = 6;  // of an entry's index key
constexpr int32_t kIndexHeads = 5;
constexpr int32_t kRotary = 4;
constexpr int32_t kWindow = 7;
constexpr int32_t kPageLayers = 2;
constexpr int32_t kLayer = 1;

float Rounded(DType dtype, float value) {
  if (dtype == DType::kF32) return value;
  return dtype == DType::kF16 ? Fp16ToFloat(FloatToFp16(value)) : Bf16ToFloat(FloatToBf16(value));
}

// One sequence, whose pages of keys and rows, and of entries, alternate in the pool.
struct Problem {
  DType dtype;
  int32_t rate;
  int32_t series;
  KvLayout keys;
  KvLayout entries;
  std::vector<float> rows;        // [kTokens, 2, series, kDim]
  std::vector<float> index_rows;  // [kTokens, 2, series, kIndexDim]
  std::vector<float> bias;
  std::vector<float> index_bias;
  std::vector<float> norm;
  std::vector<float> qkv;  // [kTokens, kHeads + 1, kDim]
  std::vector<float> index_queries;
  std::vector<float> index_weights;
  std::vector<float> inv_freq = {0.9F, 0.2F};
  std::vector<int32_t> key_pages;
  std::vector<int32_t> entry_pages;

  Problem(DType of_pages, int32_t of_entry, int32_t num_series)
      : dtype(of_pages),
        rate(of_entry),
        series(num_series),
        rows(RandomMatrix(kTokens, 2 * int64_t{series} * kDim, 1)),
        index_rows(RandomMatrix(kTokens, 2 * int64_t{series} * kIndexDim, 2)),
        bias(RandomMatrix(rate, int64_t{series} * kDim, 3)),
        index_bias(RandomMatrix(rate, int64_t{series} * kIndexDim, 4)),
        norm(RandomMatrix(1, kDim, 5)),
        qkv(RandomMatrix(kTokens, (kHeads + 1) * int64_t{kDim}, 6)),
        index_queries(RandomMatrix(kTokens, int64_t{kIndexHeads} * kIndexDim, 7)),
        index_weights(RandomMatrix(kTokens, kIndexHeads, 8)) {
    const KvShape of_keys{.num_layers = kPageLayers,
                          .num_kv_heads = 1,
                          .head_dim = kDim,
                          .values_in_keys = true,
                          .index_dim = 2 * series * (kDim + kIndexDim)};
    const KvShape of_entries{.num_layers = kPageLayers,
                             .num_kv_heads = 0,
                             .head_dim = kDim,
                             .values_in_keys = true,
                             .index_dim = EntryIndexDim(kDim + kIndexDim, rate)};
    const size_t page = std::max(MakeKvLayout(dtype, of_keys).page_bytes, MakeKvLayout(dtype, of_entries).page_bytes);
    keys = MakeKvLayout(dtype, of_keys, page);
    entries = MakeKvLayout(dtype, of_entries, page);
    const int32_t count = (kTokens + keys.tokens_per_page - 1) / keys.tokens_per_page;
    for (int32_t i = count; i > 0; --i) {
      key_pages.push_back(2 * i);
      entry_pages.push_back(2 * i - 1);
    }
  }
  size_t pool_bytes() const { return (2 * key_pages.size() + 1) * keys.page_bytes; }
  EntryPlace Entries(int32_t offset) const {
    return {.place = {.layout = entries, .layer = kLayer, .offset = offset, .page_table = entry_pages.data()},
            .entry_dim = kDim + kIndexDim,
            .rate = rate};
  }
  int32_t num_entries() const { return kTokens / rate; }
  AttentionTraits traits() const {
    return {.dtype = dtype,
            .head_dim = kDim,
            .num_heads = kHeads,
            .num_kv_heads = 1,
            .window = kWindow,
            .sinks = true,
            .v_head_dim = kDim,
            .values_in_keys = true};
  }
};

class CompressedAttentionOps : public CpuVariants {
 protected:
  // Entries of kDim, or index keys.
  KernelStatus Compress(const Problem& problem, void* pool, const SequenceSpan& span, bool index) {
    const int32_t dim = index ? kIndexDim : kDim;
    const std::vector<float>& rows = index ? problem.index_rows : problem.rows;
    const CompressKeysParams params{.rows = rows.data() + int64_t{span.first_position} * 2 * problem.series * dim,
                                    .series = problem.series,
                                    .dim = dim,
                                    .bias = index ? problem.index_bias.data() : problem.bias.data(),
                                    .norm = problem.norm.data(),
                                    .epsilon = 1e-6F,
                                    .inv_freq = problem.inv_freq.data(),
                                    .attention_factor = 1.5F,
                                    .rotary_dim = kRotary,
                                    .kv_pool = pool,
                                    .row_place = {.layout = problem.keys,
                                                  .layer = kLayer,
                                                  .offset = index ? 2 * problem.series * kDim : 0,
                                                  .page_table = problem.key_pages.data()},
                                    .entries = problem.Entries(index ? kDim : 0),
                                    .page_table_stride = static_cast<int64_t>(problem.key_pages.size()),
                                    .sequences = &span,
                                    .num_sequences = 1};
    return device_->ops->compress_keys(device_->context, params);
  }

  void StoreStep(Problem* problem, void* pool, int32_t first, int32_t count) {
    std::vector<int32_t> page;
    std::vector<int32_t> slot;
    for (int32_t token = first; token < first + count; ++token) {
      page.push_back(problem->key_pages[static_cast<size_t>(token / problem->keys.tokens_per_page)]);
      slot.push_back(token % problem->keys.tokens_per_page);
    }
    const RotateAndStoreKvParams kv{.qkv = problem->qkv.data() + int64_t{first} * (kHeads + 1) * kDim,
                                    .cos_sin = nullptr,
                                    .rotary_dim = 0,
                                    .num_heads = kHeads,
                                    .kv_pool = pool,
                                    .layout = problem->keys,
                                    .layer = kLayer,
                                    .token_page = page.data(),
                                    .token_slot = slot.data(),
                                    .num_tokens = count};
    ASSERT_EQ(device_->ops->rotate_and_store_kv(device_->context, kv), KernelStatus::kOk);
    const SequenceSpan span{.query_start = 0, .query_len = count, .first_position = first, .page_table_row = 0};
    ASSERT_EQ(Compress(*problem, pool, span, false), KernelStatus::kOk);
    ASSERT_EQ(Compress(*problem, pool, span, true), KernelStatus::kOk);
  }

  // [count, kHeads, kDim]; top_k 0: of all entries.
  std::vector<float> AttendStep(const Problem& problem, const void* pool, int32_t first, int32_t count, int32_t top_k,
                                AttentionBackend backend, std::vector<uint32_t>* selected) {
    std::vector<float> out(static_cast<size_t>(count) * kHeads * kDim, kNaN);
    const SequenceSpan span{.query_start = 0, .query_len = count, .first_position = first, .page_table_row = 0};
    const int32_t entries = problem.num_entries();
    const int64_t words = (entries + 31) / 32;
    selected->assign(static_cast<size_t>(count * words), 0xAAAAAAAAU);
    std::vector<float> scores(static_cast<size_t>(kSelectionRows) * static_cast<size_t>(entries), kNaN);
    if (top_k > 0) {
      const SelectEntriesParams select{
          .queries = problem.index_queries.data() + int64_t{first} * kIndexHeads * kIndexDim,
          .weights = problem.index_weights.data() + int64_t{first} * kIndexHeads,
          .num_heads = kIndexHeads,
          .dim = kIndexDim,
          .top_k = top_k,
          .kv_pool = pool,
          .entries = problem.Entries(kDim),
          .page_table_stride = static_cast<int64_t>(problem.key_pages.size()),
          .sequences = &span,
          .num_sequences = 1,
          .max_entries = entries,
          .scores = scores.data(),
          .selected = selected->data(),
          .selected_stride = words};
      EXPECT_EQ(device_->ops->select_entries(device_->context, select), KernelStatus::kOk);
    }
    const std::vector<float> sinks = RandomMatrix(1, kHeads, 9);
    CompressedAttentionParams params{.window = {}, .entries = problem.Entries(0)};
    PagedAttentionParams& window = params.window;
    window.backend = backend;
    window.query = problem.qkv.data() + int64_t{first} * (kHeads + 1) * kDim;
    window.query_stride = int64_t{kHeads + 1} * kDim;
    window.out = out.data();
    window.kv_pool = pool;
    window.num_pages = static_cast<int32_t>(problem.pool_bytes() / problem.keys.page_bytes);
    window.layout = problem.keys;
    window.layer = kLayer;
    window.num_heads = kHeads;
    window.page_table = problem.key_pages.data();
    window.page_table_stride = static_cast<int64_t>(problem.key_pages.size());
    window.sequences = &span;
    window.num_sequences = 1;
    window.num_one_token_sequences = count == 1 ? 1 : 0;
    window.num_rows = count;
    window.max_query_tokens = count;
    window.max_kv_tokens = first + count;
    window.scale = 0.3F;
    window.window = kWindow;
    window.sinks = sinks.data();
    window.selection = {.bits = top_k > 0 ? selected->data() : nullptr,
                        .stride = words,
                        .most = kWindow + (top_k > 0 ? top_k : entries)};
    const PagedAttentionPlan plan{.traits = problem.traits(),
                                  .max_query_tokens = count,
                                  .max_kv_tokens = std::max(first + count, window.selection.most),
                                  .selected_keys = window.selection.most};
    const PoisonedMemory workspace(*device_,
                                   device_->ops->paged_attention_workspace(device_->context, backend, plan) + 64);
    window.workspace = workspace.data();
    window.workspace_bytes = workspace.bytes();
    EXPECT_EQ(device_->ops->compressed_attention(device_->context, params), KernelStatus::kOk);
    return out;
  }
};

// In FP64, from rows as pages hold them.
std::vector<double> ExactEntry(const Problem& problem, int32_t entry, bool index) {
  const int32_t dim = index ? kIndexDim : kDim;
  const std::vector<float>& rows = index ? problem.index_rows : problem.rows;
  const std::vector<float>& bias = index ? problem.index_bias : problem.bias;
  std::vector<double> values(static_cast<size_t>(dim));
  double squares = 0.0;
  for (int32_t d = 0; d < dim; ++d) {
    double total = 0.0;
    double sum = 0.0;
    for (int32_t series = 0; series < problem.series; ++series) {
      const int32_t group = entry - (problem.series - 1 - series);
      for (int32_t i = 0; group >= 0 && i < problem.rate; ++i) {
        const int64_t width = int64_t{problem.series} * dim;
        const int64_t token = int64_t{group} * problem.rate + i;
        const auto at = static_cast<size_t>(token * 2 * width + series * dim + d);
        const double gate = static_cast<double>(Rounded(problem.dtype, rows[at + static_cast<size_t>(width)])) +
                            bias[static_cast<size_t>(i * width + series * dim + d)];
        total += std::exp(gate);
        sum += std::exp(gate) * Rounded(problem.dtype, rows[at]);
      }
    }
    values[static_cast<size_t>(d)] = sum / total;
    squares += sum / total * sum / total;
  }
  for (int32_t d = 0; d < dim; ++d) {
    values[static_cast<size_t>(d)] *= problem.norm[static_cast<size_t>(d)] / std::sqrt(squares / dim + 1e-6);
  }
  for (int32_t i = 0; i < kRotary / 2; ++i) {
    const double angle = static_cast<double>(entry) * problem.rate * problem.inv_freq[static_cast<size_t>(i)];
    double& a = values[static_cast<size_t>(dim - kRotary + 2 * i)];
    double& b = values[static_cast<size_t>(dim - kRotary + 2 * i + 1)];
    const double turned = 1.5 * (a * std::cos(angle) - b * std::sin(angle));
    b = 1.5 * (b * std::cos(angle) + a * std::sin(angle));
    a = turned;
  }
  return values;
}

double ExactIndexScore(const Problem& problem, int32_t row, int32_t entry) {
  const std::vector<double> key = ExactEntry(problem, entry, true);
  double score = 0.0;
  for (int32_t h = 0; h < kIndexHeads; ++h) {
    double product = 0.0;
    for (int32_t d = 0; d < kIndexDim; ++d) {
      product += key[static_cast<size_t>(d)] *
                 problem.index_queries[static_cast<size_t>((row * kIndexHeads + h) * kIndexDim + d)];
    }
    score += std::max(product, 0.0) * problem.index_weights[static_cast<size_t>(row * kIndexHeads + h)];
  }
  return score;
}

bool IsChosen(const Problem& problem, const std::vector<uint32_t>& selected, int32_t row, int32_t entry) {
  const int32_t words = (problem.num_entries() + 31) / 32;
  return (selected[static_cast<size_t>(row * words + entry / 32)] >> (entry % 32) & 1U) != 0;
}

std::vector<double> ExactOutput(const Problem& problem, const std::vector<uint32_t>& selected, int32_t top_k,
                                int32_t row, int32_t head) {
  const auto row_of = [&](int32_t token, int32_t of) {
    return problem.qkv.data() + (int64_t{token} * (kHeads + 1) + of) * kDim;
  };
  double total = std::exp(static_cast<double>(RandomMatrix(1, kHeads, 9)[static_cast<size_t>(head)]));
  std::vector<double> sums(kDim, 0.0);
  const auto add = [&](const std::vector<double>& key) {
    double product = 0.0;
    for (int32_t d = 0; d < kDim; ++d) product += key[static_cast<size_t>(d)] * row_of(row, head)[d];
    const double weight = std::exp(0.3 * product);
    total += weight;
    for (int32_t d = 0; d < kDim; ++d) sums[static_cast<size_t>(d)] += weight * key[static_cast<size_t>(d)];
  };
  for (int32_t token = std::max(0, row - kWindow + 1); token <= row; ++token) {
    const float* key = row_of(token, kHeads);
    add({key, key + kDim});
  }
  for (int32_t entry = 0; entry < (row + 1) / problem.rate; ++entry) {
    if (top_k == 0 || IsChosen(problem, selected, row, entry)) add(ExactEntry(problem, entry, false));
  }
  for (double& sum : sums) sum /= total;
  return sums;
}

TEST_P(CompressedAttentionOps, RowsAttendToTheirWindowAndToCompleteEntries) {
  for (const int32_t rate : {4, 16}) {
    for (const int32_t series : {1, 2}) {
      const int32_t top_k = series == 2 ? 3 : 0;
      Problem problem(DType::kF32, rate, series);
      const PoisonedMemory pool(*device_, problem.pool_bytes());
      StoreStep(&problem, pool.data(), 0, kTokens);
      for (const AttentionBackend backend : kAutoOrder) {
        if (!device_->ops->supports_attention(device_->context, backend, problem.traits(), nullptr)) continue;
        std::vector<uint32_t> selected;
        const std::vector<float> out = AttendStep(problem, pool.data(), 0, kTokens, top_k, backend, &selected);
        for (int32_t row = 0; row < kTokens; ++row) {
          for (int32_t head = 0; head < kHeads; ++head) {
            const std::vector<double> expected = ExactOutput(problem, selected, top_k, row, head);
            for (int32_t d = 0; d < kDim; ++d) {
              ASSERT_NEAR(out[static_cast<size_t>((row * kHeads + head) * kDim + d)], expected[static_cast<size_t>(d)],
                          3e-5)
                  << Name(backend) << " rate " << rate << " series " << series << " row " << row;
            }
          }
        }
      }
    }
  }
}

TEST_P(CompressedAttentionOps, RowsChooseTheEntriesWithTheLargestScores) {
  constexpr int32_t kTopK = 3;
  Problem problem(DType::kF32, 4, 2);
  const PoisonedMemory pool(*device_, problem.pool_bytes());
  StoreStep(&problem, pool.data(), 0, kTokens);
  std::vector<uint32_t> selected;
  (void)AttendStep(problem, pool.data(), 0, kTokens, kTopK, AttentionBackend::kMath, &selected);
  for (int32_t row = 3; row < kTokens; ++row) {
    std::vector<double> scores;
    for (int32_t entry = 0; entry < (row + 1) / 4; ++entry) scores.push_back(ExactIndexScore(problem, row, entry));
    std::vector<double> sorted = scores;
    std::sort(sorted.rbegin(), sorted.rend());
    const auto expected = std::min<size_t>(scores.size(), kTopK);
    size_t count = 0;
    for (size_t entry = 0; entry < scores.size(); ++entry) {
      const bool chosen = IsChosen(problem, selected, row, static_cast<int32_t>(entry));
      count += chosen ? 1 : 0;
      if (std::fabs(scores[entry] - sorted[expected - 1]) < 1e-4) continue;
      ASSERT_EQ(chosen, scores[entry] > sorted[expected - 1]) << "row " << row << " entry " << entry;
    }
    ASSERT_EQ(count, expected) << row;
  }
}

TEST_P(CompressedAttentionOps, HaveTheSameBitsUnderAnyCut) {
  const auto other = Open(GetParam(), 5);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const AttentionBackend backend : kAutoOrder) {
      Problem problem(dtype, 4, 2);
      if (!device_->ops->supports_attention(device_->context, backend, problem.traits(), nullptr)) continue;
      const PoisonedMemory pool(*device_, problem.pool_bytes());
      StoreStep(&problem, pool.data(), 0, kTokens);
      std::vector<uint32_t> selected;
      const std::vector<float> expected = AttendStep(problem, pool.data(), 0, kTokens, 5, backend, &selected);
      for (const int32_t cut : {1, 3, 37}) {
        const PoisonedMemory pieces(*device_, problem.pool_bytes());
        for (int32_t first = 0; first < kTokens; first += cut) {
          const int32_t count = std::min(cut, kTokens - first);
          StoreStep(&problem, pieces.data(), first, count);
          const std::vector<float> out = AttendStep(problem, pieces.data(), first, count, 5, backend, &selected);
          const auto begin = expected.begin() + int64_t{first} * kHeads * kDim;
          ASSERT_EQ(out, std::vector<float>(begin, begin + static_cast<int64_t>(out.size())))
              << Name(dtype) << " " << Name(backend) << " cut " << cut << " first " << first;
        }
      }
    }
  }
}

TEST_P(CompressedAttentionOps, RefuseRatesThatNoPageHolds) {
  Problem problem(DType::kF32, 4, 1);
  const PoisonedMemory pool(*device_, problem.pool_bytes());
  const SequenceSpan span{.query_start = 0, .query_len = 1, .first_position = 0, .page_table_row = 0};
  for (const int32_t rate : {0, 1, 3, 2}) {  // of 2 there are too many entries in a page
    problem.rate = rate;
    EXPECT_EQ(Compress(problem, pool.data(), span, false), KernelStatus::kInvalidArgument) << rate;
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(CompressedAttentionOps);

}  // namespace
}  // namespace dunlin::kernels::compressed_attention_tests
