// SPDX-License-Identifier: Apache-2.0
// Sparse attention over blocks of keys that each KV head chooses for itself, against FP64; a row's choice and output
// are the same under any cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/api/key_selection.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels::key_blocks_tests {  // apart from names of other sources in a unity batch
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr int32_t kTokens = 150;
constexpr int32_t kKvHeads = 3;
constexpr int32_t kGroup = 2;  // query heads of a KV head
constexpr int32_t kHeads = kKvHeads * kGroup;
constexpr int32_t kDim = 10;
constexpr int32_t kIndexDim = 8;
constexpr int32_t kRotary = 4;
constexpr int32_t kBlock = 16;
constexpr int32_t kLayer = 1;  // of two in a page
constexpr int64_t kRowFeatures = int64_t{kHeads + 2 * kKvHeads} * kDim;

// One sequence, whose pages lie in descending order.
struct Problem {
  KvLayout layout;
  KeyBlocks blocks;
  int32_t top_k;
  std::vector<float> qkv = RandomMatrix(kTokens, kRowFeatures, 1);
  std::vector<float> queries = RandomMatrix(kTokens, int64_t{kKvHeads} * kIndexDim, 2);
  std::vector<float> keys = RandomMatrix(kTokens, kIndexDim, 3);
  std::vector<float> cos_sin = RandomMatrix(kTokens, kRotary, 4);
  std::vector<int32_t> pages;

  Problem(DType dtype, int32_t chosen, int32_t local)
      : layout(
            MakeKvLayout(dtype, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = kDim, .index_dim = kIndexDim})),
        blocks{.tokens = kBlock, .local = local},
        top_k(chosen * kBlock) {
    for (int32_t page = (kTokens + layout.tokens_per_page - 1) / layout.tokens_per_page; page > 0; --page) {
      pages.push_back(page);
    }
  }
  size_t pool_bytes() const { return (pages.size() + 1) * layout.page_bytes; }
  static int64_t words() { return (kTokens + 31) / 32; }
  float Rounded(float value) const {
    if (layout.dtype == DType::kF32) return value;
    return layout.dtype == DType::kF16 ? Fp16ToFloat(FloatToFp16(value)) : Bf16ToFloat(FloatToBf16(value));
  }
};

struct StepRows {
  std::vector<uint32_t> selected;  // [count, kKvHeads, words]
  std::vector<float> out;          // [count, kHeads, kDim]

  bool IsSelected(int32_t row, int32_t head, int32_t key) const {
    const int64_t choice = int64_t{row} * kKvHeads + head;
    return (selected[static_cast<size_t>(choice * Problem::words() + key / 32)] >> (key % 32) & 1U) != 0;
  }
};

void Store(Device& device, Problem* problem, void* pool, int32_t first, int32_t count) {
  std::vector<int32_t> page;
  std::vector<int32_t> slot;
  for (int32_t token = first; token < first + count; ++token) {
    page.push_back(problem->pages[static_cast<size_t>(token / problem->layout.tokens_per_page)]);
    slot.push_back(token % problem->layout.tokens_per_page);
  }
  const RotateAndStoreKvParams kv{.qkv = problem->qkv.data() + first * kRowFeatures,
                                  .cos_sin = nullptr,
                                  .rotary_dim = 0,
                                  .num_heads = kHeads,
                                  .kv_pool = pool,
                                  .layout = problem->layout,
                                  .layer = kLayer,
                                  .token_page = page.data(),
                                  .token_slot = slot.data(),
                                  .num_tokens = count};
  ASSERT_EQ(device.ops->rotate_and_store_kv(device.context, kv), KernelStatus::kOk);
  const StoreIndexKeysParams index{.queries = problem->queries.data() + int64_t{first} * kKvHeads * kIndexDim,
                                   .keys = problem->keys.data() + int64_t{first} * kIndexDim,
                                   .cos_sin = problem->cos_sin.data() + int64_t{first} * kRotary,
                                   .rotary_dim = kRotary,
                                   .neighbours = false,
                                   .num_heads = kKvHeads,
                                   .kv_pool = pool,
                                   .layout = problem->layout,
                                   .layer = kLayer,
                                   .token_page = page.data(),
                                   .token_slot = slot.data(),
                                   .num_tokens = count};
  ASSERT_EQ(device.ops->store_index_keys(device.context, index), KernelStatus::kOk);
}

SelectKeysParams SelectOf(const Problem& problem, const void* pool, const SequenceSpan* span) {
  return {.queries = problem.queries.data() + int64_t{span->first_position} * kKvHeads * kIndexDim,
          .weights = nullptr,
          .num_heads = kKvHeads,
          .top_k = problem.top_k,
          .blocks = problem.blocks,
          .kv_pool = pool,
          .layout = problem.layout,
          .layer = kLayer,
          .page_table = problem.pages.data(),
          .page_table_stride = static_cast<int64_t>(problem.pages.size()),
          .sequences = span,
          .num_sequences = 1,
          .num_rows = span->query_len,
          .max_kv_tokens = span->first_position + span->query_len,
          .scores = nullptr,
          .selected = nullptr,
          .selected_stride = Problem::words()};
}

StepRows Attend(Device& device, const Problem& problem, const void* pool, int32_t first, int32_t count,
                AttentionBackend backend) {
  StepRows rows;
  rows.selected.assign(static_cast<size_t>(count * kKvHeads * Problem::words()), 0xAAAAAAAAU);
  rows.out.assign(static_cast<size_t>(count) * kHeads * kDim, kNaN);
  std::vector<float> scores(static_cast<size_t>(kSelectionRows) * static_cast<size_t>(first + count), kNaN);
  const SequenceSpan span{.query_start = 0, .query_len = count, .first_position = first, .page_table_row = 0};
  SelectKeysParams select = SelectOf(problem, pool, &span);
  select.scores = scores.data();
  select.selected = rows.selected.data();
  EXPECT_EQ(device.ops->select_keys(device.context, select), KernelStatus::kOk);
  PagedAttentionParams attention{};
  attention.backend = backend;
  attention.query = problem.qkv.data() + first * kRowFeatures;
  attention.query_stride = kRowFeatures;
  attention.out = rows.out.data();
  attention.kv_pool = pool;
  attention.num_pages = static_cast<int32_t>(problem.pages.size()) + 1;
  attention.layout = problem.layout;
  attention.layer = kLayer;
  attention.num_heads = kHeads;
  attention.page_table = problem.pages.data();
  attention.page_table_stride = static_cast<int64_t>(problem.pages.size());
  attention.sequences = &span;
  attention.num_sequences = 1;
  attention.num_one_token_sequences = count == 1 ? 1 : 0;
  attention.num_rows = count;
  attention.max_query_tokens = count;
  attention.max_kv_tokens = first + count;
  attention.scale = 0.3F;
  attention.selection = {.bits = rows.selected.data(),
                         .stride = kKvHeads * Problem::words(),
                         .head_stride = Problem::words(),
                         .most = problem.top_k};
  const PagedAttentionPlan plan{
      .traits = {.dtype = problem.layout.dtype, .head_dim = kDim, .num_heads = kHeads, .num_kv_heads = kKvHeads},
      .max_query_tokens = count,
      .max_kv_tokens = first + count,
      .selected_keys = problem.top_k};
  const PoisonedMemory workspace(device, device.ops->paged_attention_workspace(device.context, backend, plan) + 64);
  attention.workspace = workspace.data();
  attention.workspace_bytes = workspace.bytes();
  EXPECT_EQ(device.ops->paged_attention(device.context, attention), KernelStatus::kOk);
  return rows;
}

class KeyBlockOps : public CpuVariants {};

// Largest products with the keys of each block up to the row's own. After Store, which has rotated both.
std::vector<double> ExactScores(const Problem& problem, int32_t row, int32_t head) {
  std::vector<double> scores(static_cast<size_t>(row / kBlock + 1), -1e30);
  for (int32_t key = 0; key <= row; ++key) {
    double product = 0.0;
    for (int32_t d = 0; d < kIndexDim; ++d) {
      product += static_cast<double>(problem.queries[static_cast<size_t>((row * kKvHeads + head) * kIndexDim + d)]) *
                 static_cast<double>(problem.Rounded(problem.keys[static_cast<size_t>(key * kIndexDim + d)]));
    }
    double& best = scores[static_cast<size_t>(key / kBlock)];
    best = std::max(best, product);
  }
  for (int32_t i = 0; i < problem.blocks.local && i < static_cast<int32_t>(scores.size()); ++i) {
    scores[scores.size() - 1 - static_cast<size_t>(i)] = 1e30;
  }
  return scores;
}

TEST_P(KeyBlockOps, EachHeadChoosesTheBlocksWithTheLargestScores) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int32_t local : {1, 2}) {
      Problem problem(dtype, 3, local);
      const PoisonedMemory pool(*device_, problem.pool_bytes());
      Store(*device_, &problem, pool.data(), 0, kTokens);
      const StepRows rows = Attend(*device_, problem, pool.data(), 0, kTokens, AttentionBackend::kMath);
      for (int32_t row = 0; row < kTokens; ++row) {
        for (int32_t head = 0; head < kKvHeads; ++head) {
          const std::vector<double> scores = ExactScores(problem, row, head);
          std::vector<double> sorted = scores;
          std::sort(sorted.rbegin(), sorted.rend());
          const double least = sorted[std::min<size_t>(sorted.size(), 3) - 1];
          for (int32_t key = 0; key <= row; ++key) {
            const double score = scores[static_cast<size_t>(key / kBlock)];
            // Rounding may put a score on either side of the last one taken.
            if (score != least && std::fabs(score - least) < 1e-4) continue;
            ASSERT_EQ(rows.IsSelected(row, head, key), score >= least) << "row " << row << " key " << key;
          }
        }
      }
    }
  }
}

// The exact output of a query head over the keys that its KV head chose.
std::vector<double> ExactOutput(const Problem& problem, const StepRows& rows, int32_t row, int32_t head) {
  const auto features = [&](int32_t token, int32_t of_head) {
    return problem.qkv.data() + token * kRowFeatures + int64_t{of_head} * kDim;
  };
  std::vector<double> sums(kDim, 0.0);
  double total = 0.0;
  for (int32_t key = 0; key <= row; ++key) {
    if (!rows.IsSelected(row, head / kGroup, key)) continue;
    const float* query = features(row, head);
    const float* of_key = features(key, kHeads + head / kGroup);
    const float* value = features(key, kHeads + kKvHeads + head / kGroup);
    double product = 0.0;
    for (int32_t d = 0; d < kDim; ++d) {
      product += static_cast<double>(problem.Rounded(of_key[d])) * static_cast<double>(problem.Rounded(query[d]));
    }
    const double weight = std::exp(0.3 * product);
    total += weight;
    for (int32_t d = 0; d < kDim; ++d) {
      sums[static_cast<size_t>(d)] += weight * static_cast<double>(problem.Rounded(value[d]));
    }
  }
  for (double& sum : sums) sum /= total;
  return sums;
}

TEST_P(KeyBlockOps, EachHeadAttendsToItsBlocksAlone) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Problem problem(dtype, 2, 1);
    const PoisonedMemory pool(*device_, problem.pool_bytes());
    Store(*device_, &problem, pool.data(), 0, kTokens);
    for (const AttentionBackend backend : kAutoOrder) {
      const StepRows rows = Attend(*device_, problem, pool.data(), 0, kTokens, backend);
      for (int32_t row = 0; row < kTokens; ++row) {
        for (int32_t head = 0; head < kHeads; ++head) {
          const std::vector<double> exact = ExactOutput(problem, rows, row, head);
          for (size_t d = 0; d < kDim; ++d) {
            const auto at = static_cast<size_t>(row * kHeads + head) * kDim + d;
            ASSERT_NEAR(rows.out[at], exact[d], dtype == DType::kF32 ? 2e-5 : 3e-2)
                << Name(dtype) << " " << Name(backend) << " row " << row;
          }
        }
      }
    }
  }
}

TEST_P(KeyBlockOps, HaveTheSameBitsUnderAnyCut) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const AttentionBackend backend : kAutoOrder) {
      Problem whole(dtype, 2, 1);
      const PoisonedMemory pool(*device_, whole.pool_bytes());
      Store(*device_, &whole, pool.data(), 0, kTokens);
      const StepRows expected = Attend(*device_, whole, pool.data(), 0, kTokens, backend);
      for (const int32_t cut : {1, 17, 64}) {
        Problem pieces(dtype, 2, 1);
        const PoisonedMemory other(*device_, pieces.pool_bytes());
        for (int32_t first = 0; first < kTokens; first += cut) {
          const int32_t count = std::min(cut, kTokens - first);
          Store(*device_, &pieces, other.data(), first, count);
          const StepRows rows = Attend(*device_, pieces, other.data(), first, count, backend);
          const auto begin = expected.out.begin() + int64_t{first} * kHeads * kDim;
          ASSERT_TRUE(std::equal(rows.out.begin(), rows.out.end(), begin)) << "cut " << cut << " first " << first;
        }
      }
    }
  }
}

TEST_P(KeyBlockOps, ImpossibleBlocksAreRefused) {
  const Problem problem(DType::kF32, 3, 1);
  const SequenceSpan none{};
  const auto status_of = [&](KeyBlocks blocks, int32_t top_k, int32_t heads) {
    SelectKeysParams select = SelectOf(problem, nullptr, &none);
    select.num_sequences = 0;
    select.blocks = blocks;
    select.top_k = top_k;
    select.num_heads = heads;
    return device_->ops->select_keys(device_->context, select);
  };
  EXPECT_EQ(status_of({.tokens = 16, .local = 1}, 48, 3), KernelStatus::kOk);
  EXPECT_EQ(status_of({.tokens = 24, .local = 1}, 48, 3), KernelStatus::kInvalidArgument) << "no multiple of 16";
  EXPECT_EQ(status_of({.tokens = 16, .local = 0}, 48, 3), KernelStatus::kInvalidArgument) << "heads choose unlike";
  EXPECT_EQ(status_of({.tokens = 16, .local = 4}, 48, 3), KernelStatus::kInvalidArgument) << "more than are chosen";
  EXPECT_EQ(status_of({.tokens = 16, .local = 1}, 40, 3), KernelStatus::kInvalidArgument) << "part of a block";
  EXPECT_EQ(status_of({.tokens = 16, .local = 1}, 48, 9), KernelStatus::kInvalidArgument) << "more than half a block";
}

DUNLIN_FOR_EVERY_CPU_VARIANT(KeyBlockOps);

}  // namespace
}  // namespace dunlin::kernels::key_blocks_tests
