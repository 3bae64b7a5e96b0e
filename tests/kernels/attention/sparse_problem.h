// SPDX-License-Identifier: Apache-2.0
// What the tests of sparse attention share: a sequence with index keys in pages, and steps over its rows.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/key_selection.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {

inline constexpr int32_t kIndexHeads = 5;
inline constexpr int32_t kIndexRotary = 6;
inline constexpr int32_t kAttentionHeads = 3;
inline constexpr int32_t kLatentDim = 20;
inline constexpr int32_t kLatentValue = 14;
inline constexpr int32_t kLatentLayer = 1;  // of two in a page

// One sequence's rows, and pages that hold it in descending order.
struct SparseProblem {
  int32_t tokens;
  int32_t dim;
  KvLayout layout;
  std::vector<float> queries;
  std::vector<float> keys;
  std::vector<float> weights;
  std::vector<float> cos_sin;
  std::vector<float> qkv;
  std::vector<int32_t> pages;

  SparseProblem(int32_t num_tokens, int32_t index_dim, DType dtype)
      : tokens(num_tokens),
        dim(index_dim),
        layout(MakeKvLayout(dtype, {.num_layers = 2,
                                    .num_kv_heads = 1,
                                    .head_dim = kLatentDim,
                                    .v_head_dim = kLatentValue,
                                    .values_in_keys = true,
                                    .index_dim = index_dim})),
        queries(testing_cpu::RandomMatrix(num_tokens, int64_t{kIndexHeads} * index_dim, 1)),
        keys(testing_cpu::RandomMatrix(num_tokens, index_dim, 2)),
        weights(testing_cpu::RandomMatrix(num_tokens, kIndexHeads, 3)),
        cos_sin(testing_cpu::RandomMatrix(num_tokens, kIndexRotary, 4)),
        qkv(testing_cpu::RandomMatrix(num_tokens, int64_t{kAttentionHeads + 1} * kLatentDim, 5)) {
    const int32_t count = (tokens + layout.tokens_per_page - 1) / layout.tokens_per_page;
    for (int32_t page = count; page > 0; --page) pages.push_back(page);
  }
  size_t pool_bytes() const { return (pages.size() + 1) * layout.page_bytes; }
  int64_t words() const { return (int64_t{tokens} + 31) / 32; }
  AttentionTraits traits() const {
    return {.dtype = layout.dtype,
            .head_dim = kLatentDim,
            .num_heads = kAttentionHeads,
            .num_kv_heads = 1,
            .v_head_dim = kLatentValue,
            .values_in_keys = true};
  }
};

// What a step over rows [first, first + count) leaves.
struct SparseRows {
  std::vector<uint32_t> selected;  // [count, words]
  std::vector<float> out;          // [count, kAttentionHeads, kLatentValue]
};

inline void StoreStep(Device& device, SparseProblem* problem, void* pool, int32_t first, int32_t count,
                      bool neighbours) {
  std::vector<int32_t> page;
  std::vector<int32_t> slot;
  for (int32_t token = first; token < first + count; ++token) {
    page.push_back(problem->pages[static_cast<size_t>(token / problem->layout.tokens_per_page)]);
    slot.push_back(token % problem->layout.tokens_per_page);
  }
  const RotateAndStoreKvParams kv{.qkv = problem->qkv.data() + int64_t{first} * (kAttentionHeads + 1) * kLatentDim,
                                  .cos_sin = nullptr,
                                  .rotary_dim = 0,
                                  .num_heads = kAttentionHeads,
                                  .kv_pool = pool,
                                  .layout = problem->layout,
                                  .layer = kLatentLayer,
                                  .token_page = page.data(),
                                  .token_slot = slot.data(),
                                  .num_tokens = count};
  ASSERT_EQ(device.ops->rotate_and_store_kv(device.context, kv), KernelStatus::kOk);
  const StoreIndexKeysParams index{.queries = problem->queries.data() + int64_t{first} * kIndexHeads * problem->dim,
                                   .keys = problem->keys.data() + int64_t{first} * problem->dim,
                                   .cos_sin = problem->cos_sin.data() + int64_t{first} * kIndexRotary,
                                   .rotary_dim = kIndexRotary,
                                   .neighbours = neighbours,
                                   .num_heads = kIndexHeads,
                                   .kv_pool = pool,
                                   .layout = problem->layout,
                                   .layer = kLatentLayer,
                                   .token_page = page.data(),
                                   .token_slot = slot.data(),
                                   .num_tokens = count};
  ASSERT_EQ(device.ops->store_index_keys(device.context, index), KernelStatus::kOk);
}

// The attention of rows [first, first + count), which are those of `span`; without outputs, selection and workspace.
inline PagedAttentionParams SparseAttention(const SparseProblem& problem, const void* pool, const SequenceSpan* span,
                                            AttentionBackend backend) {
  PagedAttentionParams attention{};
  attention.backend = backend;
  attention.query = problem.qkv.data() + int64_t{span->first_position} * (kAttentionHeads + 1) * kLatentDim;
  attention.query_stride = int64_t{kAttentionHeads + 1} * kLatentDim;
  attention.kv_pool = pool;
  attention.num_pages = static_cast<int32_t>(problem.pages.size()) + 1;
  attention.layout = problem.layout;
  attention.layer = kLatentLayer;
  attention.num_heads = kAttentionHeads;
  attention.page_table = problem.pages.data();
  attention.page_table_stride = static_cast<int64_t>(problem.pages.size());
  attention.sequences = span;
  attention.num_sequences = 1;
  attention.num_one_token_sequences = span->query_len == 1 ? 1 : 0;
  attention.num_rows = span->query_start + span->query_len;
  attention.max_query_tokens = span->query_len;
  attention.max_kv_tokens = span->first_position + span->query_len;
  attention.scale = 0.3F;
  return attention;
}

// With a workspace of its size.
inline KernelStatus RunAttention(Device& device, const SparseProblem& problem, PagedAttentionParams attention) {
  const PagedAttentionPlan plan{.traits = problem.traits(),
                                .max_query_tokens = attention.max_query_tokens,
                                .max_kv_tokens = attention.max_kv_tokens,
                                .selected_keys = attention.selection.most};
  const size_t bytes = device.ops->paged_attention_workspace(device.context, attention.backend, plan);
  const testing_cpu::PoisonedMemory workspace(device, bytes + 64);
  attention.workspace = workspace.data();
  attention.workspace_bytes = workspace.bytes();
  return device.ops->paged_attention(device.context, attention);
}

inline SparseRows AttendStep(Device& device, const SparseProblem& problem, const void* pool, int32_t first,
                             int32_t count, int32_t top_k, AttentionBackend backend) {
  SparseRows rows;
  rows.selected.assign(static_cast<size_t>(count * problem.words()), 0xAAAAAAAAU);
  rows.out.assign(static_cast<size_t>(count) * kAttentionHeads * kLatentValue, testing_cpu::kNaN);
  const SequenceSpan span{.query_start = 0, .query_len = count, .first_position = first, .page_table_row = 0};
  std::vector<float> scores(static_cast<size_t>(kSelectionRows) * static_cast<size_t>(first + count),
                            testing_cpu::kNaN);
  const SelectKeysParams select{.queries = problem.queries.data() + int64_t{first} * kIndexHeads * problem.dim,
                                .weights = problem.weights.data() + int64_t{first} * kIndexHeads,
                                .num_heads = kIndexHeads,
                                .top_k = top_k,
                                .kv_pool = pool,
                                .layout = problem.layout,
                                .layer = kLatentLayer,
                                .page_table = problem.pages.data(),
                                .page_table_stride = static_cast<int64_t>(problem.pages.size()),
                                .sequences = &span,
                                .num_sequences = 1,
                                .num_rows = count,
                                .max_kv_tokens = first + count,
                                .scores = scores.data(),
                                .selected = rows.selected.data(),
                                .selected_stride = problem.words()};
  EXPECT_EQ(device.ops->select_keys(device.context, select), KernelStatus::kOk);
  PagedAttentionParams attention = SparseAttention(problem, pool, &span, backend);
  attention.out = rows.out.data();
  attention.selection = {.bits = rows.selected.data(), .stride = problem.words(), .most = top_k};
  EXPECT_EQ(RunAttention(device, problem, attention), KernelStatus::kOk);
  return rows;
}

inline float RoundedTo(DType dtype, float value) {
  if (dtype == DType::kF32) return value;
  return dtype == DType::kF16 ? Fp16ToFloat(FloatToFp16(value)) : Bf16ToFloat(FloatToBf16(value));
}

inline bool IsSelected(const SparseRows& rows, int64_t words, int32_t row, int32_t key) {
  return (rows.selected[static_cast<size_t>(row * words + key / 32)] >> (key % 32) & 1U) != 0;
}

}  // namespace dunlin::kernels
