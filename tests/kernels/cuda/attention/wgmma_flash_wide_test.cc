// SPDX-License-Identifier: Apache-2.0
// FLASH and EFFICIENT by wgmma for heads of more than 128 dims, whose blocks take one task after another in prefill and
// keep the totals of their splits in memory: the bits of a launch with a block for each task, the division of tasks,
// and what warpgroups that share rows take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention/check_problem.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::PagedBatch;

constexpr DeviceShape kWideDevice{132, 227 * 1024, 90};

// A block takes every task of its turns, and not the first of each.
TEST(WgmmaFlashWide, BlocksTakeAllTasksInTurns) {
  constexpr int32_t kBlocks = 5;
  constexpr int32_t kTasks = 17;
  std::vector<int> taken(kTasks);
  for (int32_t block = 0; block < kBlocks; ++block) {
    for (int32_t turn = 0; turn < 4; ++turn) {
      const int32_t task = WgmmaFlashTaskOf(turn, block, kBlocks);
      EXPECT_EQ(task / kBlocks, turn);
      if (task < kTasks) ++taken[static_cast<size_t>(task)];
    }
  }
  EXPECT_EQ(taken, std::vector<int>(kTasks, 1));
  EXPECT_EQ(WgmmaFlashTaskOf(0, 0, kBlocks) + WgmmaFlashTaskOf(1, 0, kBlocks),
            WgmmaFlashTaskOf(0, 4, kBlocks) + WgmmaFlashTaskOf(1, 4, kBlocks));
}

// Heads of more than 128 dims: a block that takes one task after another, some without rows, gives each the bits of a
// block of its own, in any number of blocks. Totals of the splits are the block's own memory.
TEST(WgmmaFlashWide, BlocksThatTakeSeveralTasksGiveTheSameBits) {
  using Case = std::pair<DType, testing::HeadShape>;
  for (const auto& [dtype, shape] : {Case{DType::kBF16, {2, 1, 256}},
                                     {DType::kF8E4M3, {2, 1, 256}},
                                     {DType::kF16, {2, 1, 512}},
                                     {DType::kF8E4M3, {2, 1, 512}},
                                     {DType::kF16, {2, 1, 576, 512}}}) {
    for (const auto& [backend, window] :
         {std::pair{AttentionBackend::kFlash, 0}, {AttentionBackend::kFlash, 300}, {AttentionBackend::kEfficient, 0}}) {
      PagedBatch batch(dtype, shape, {{3, 0, 2}, {42, 1000, 90}, {4, 2040, 20}, {5, 0, 70}}, 3, testing::kCudaPages);
      batch.window = window;
      const std::vector<float> expected = testing::Hopper().Paged(batch, backend, testing::Division::kAsPlanned);
      for (const int32_t multiprocessors : {1, 2, 3}) {
        const DeviceShape device{multiprocessors, 227 * 1024, 90};
        std::vector<float> out(batch.out_floats(), NAN);
        testing::RunPagedOnHost(batch.Params(backend, out.data()), batch.Plan(), device);
        EXPECT_EQ(out, expected) << Name(backend) << " " << Name(dtype) << " of " << shape.head_dim << ", "
                                 << multiprocessors << " blocks, window " << window;
      }
    }
  }
}

// Each block writes the totals that are its own, as blocks run at the same time on a device.
TEST(WgmmaFlashWide, BlocksKeepTheirTotalsApart) {
  // Of blocks of 128 rows and, of wider ones, of 64.
  for (const auto& [shape, tokens] :
       {std::pair{testing::HeadShape{2, 1, 256}, 200}, {{2, 1, 512}, 100}, {{2, 1, 576, 512}, 100}}) {
    const PagedBatch batch(DType::kBF16, shape, {{42, 1000, tokens}}, 3, testing::kCudaPages);
    std::vector<float> out(batch.out_floats());
    const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out.data());
    const AttentionCall call = CallOf(params);
    const AttentionKernel& row = *FindKernel(AttentionKernels(), kWideDevice, AttentionBackend::kFlash,
                                             AttentionPhase::kPrefill, TraitsOf(params), &call);
    constexpr size_t kBlocks = 3;
    constexpr size_t kFloats = kWgmmaTotalBytes / sizeof(float);
    std::vector<float> totals(kBlocks * kFloats, NAN);
    LaunchPlan plan;
    ASSERT_TRUE(row.plan.divide(row.geometry, call, {kBlocks, 227 * 1024, 90}, totals.data(),
                                kBlocks * kWgmmaTotalBytes, &plan));
    ASSERT_EQ(plan.blocks, 3) << "of four blocks of rows";
    row.launch(call, plan, nullptr);
    for (const float total : totals) ASSERT_TRUE(std::isfinite(total));
  }
}

// Heads of one token in two blocks of rows, alone and in a chunk; their parts fit the workspace for long contexts.
TEST(WgmmaFlashWide, LatentRowsOfManyHeads) {
  const testing::HeadShape shape{70, 1, 576, 512};
  std::vector<float> outs[2];
  for (const int32_t tokens : {1, 2}) {
    const PagedBatch batch(DType::kBF16, shape, {{42, 1040 - tokens, tokens}}, static_cast<uint64_t>(tokens),
                           testing::kCudaPages);
    outs[tokens - 1].assign(batch.out_floats(), NAN);
    testing::RunPagedOnHost(batch.Params(AttentionBackend::kFlash, outs[tokens - 1].data()), batch.Plan(), kWideDevice);
  }
  ASSERT_EQ(outs[1].size(), 2 * outs[0].size());
  EXPECT_TRUE(std::equal(outs[0].begin(), outs[0].end(), outs[1].begin() + static_cast<int64_t>(outs[0].size())));
  const AttentionTraits traits{.dtype = DType::kBF16,
                               .head_dim = 576,
                               .num_heads = 128,
                               .num_kv_heads = 1,
                               .v_head_dim = 512,
                               .values_in_keys = true};
  const AttentionKernel& row =
      *FindKernel(AttentionKernels(), kWideDevice, AttentionBackend::kFlash, AttentionPhase::kDecode, traits);
  const PagedAttentionPlan plan{.traits = traits, .max_query_tokens = 2048, .max_kv_tokens = 131072};
  const size_t bytes = row.plan.paged_workspace(row.geometry, plan, kWideDevice);
  for (const auto& [sequences, keys] : {std::pair{2, 131072}, {8, 131072}, {64, 16384}}) {
    AttentionCall call{};
    call.num_sequences = sequences;
    call.num_kv_heads = 1;
    call.group = 128;
    call.values.dim = 512;
    call.max_query_tokens = 1;
    call.max_kv_tokens = keys;
    LaunchPlan launch;
    static float workspace[1];
    ASSERT_TRUE(row.plan.divide(row.geometry, call, kWideDevice, workspace, bytes, &launch));
    EXPECT_EQ(launch.parts.data, workspace) << sequences << " of " << keys;
    EXPECT_EQ(launch.parts.num_parts, keys / kWgmmaSplitKeys);
  }
}

// Latent rows: the kernel takes what it says, one row for both phases, and no other dims, codes or chosen keys.
TEST(WgmmaFlashWide, TakesLatentRowsOfItsDims) {
  alignas(16) float out[4];
  const auto takes = [&out](DType dtype, const testing::HeadShape& shape, AttentionPhase phase, auto&& change) {
    const PagedBatch batch(dtype, shape, {{1, 0, 5}}, 1, testing::kCudaPages);
    const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out);
    AttentionCall call = CallOf(params);
    change(&call);
    const AttentionKernel* row =
        FindKernel(AttentionKernels(), kWideDevice, AttentionBackend::kFlash, phase, TraitsOf(params), &call);
    return row != nullptr && row->takes == TakesWgmmaLatent;
  };
  const auto nothing = [](AttentionCall*) {};
  for (const AttentionPhase phase : kAttentionPhases) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      EXPECT_TRUE(takes(dtype, {16, 1, 576, 512}, phase, nothing));
      EXPECT_FALSE(takes(dtype, {16, 1, 320, 256}, phase, nothing));
      EXPECT_FALSE(takes(dtype, {16, 1, 512, 448}, phase, nothing));
      EXPECT_FALSE(takes(dtype, {16, 1, 512}, phase, nothing));
      EXPECT_FALSE(takes(dtype, {16, 1, 576, 512}, phase, [](AttentionCall* call) { call->softcap = 1.0F; }));
      EXPECT_FALSE(takes(dtype, {16, 1, 576, 512}, phase, [](AttentionCall* call) { call->page_shift = 0; }));
    }
  }
}

// Heads of more than 256 dims that are whole pieces: one row for both phases, whose parts are whole rows of 512.
TEST(WgmmaFlashWide, TakesHeadsOfUpTo512Dims) {
  alignas(16) float out[4];
  const auto takes = [&out](DType dtype, const testing::HeadShape& shape, auto&& change) {
    PagedBatch batch(dtype, shape, {{1, 0, 5}}, 1, testing::kCudaPages);
    change(&batch);
    const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out);
    const AttentionCall call = CallOf(params);
    int rows = 0;
    for (const AttentionBackend backend : {AttentionBackend::kFlash, AttentionBackend::kEfficient}) {
      const AttentionKernel* found[2];
      for (const size_t phase : {0, 1}) {
        found[phase] =
            FindKernel(AttentionKernels(), kWideDevice, backend, kAttentionPhases[phase], TraitsOf(params), &call);
      }
      if (found[0]->takes != TakesWgmmaFlash) continue;
      EXPECT_EQ(found[0], found[1]) << "a row of one phase";
      EXPECT_EQ(found[0]->limits.max_head_dim, 512);
      EXPECT_EQ(found[0]->geometry.rows, 64);
      ++rows;
    }
    EXPECT_TRUE(rows == 0 || rows == 2) << "backends differ";
    return rows != 0;
  };
  const auto plain = [](PagedBatch*) {};
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    for (const int32_t head_dim : {272, 320, 512}) EXPECT_TRUE(takes(dtype, {8, 1, head_dim}, plain)) << head_dim;
    for (const int32_t head_dim : {260, 510}) EXPECT_FALSE(takes(dtype, {8, 1, head_dim}, plain)) << head_dim;
    EXPECT_TRUE(takes(dtype, {8, 1, 512}, [](PagedBatch* batch) { batch->window = 9; }));
    EXPECT_FALSE(takes(dtype, {8, 1, 512}, [](PagedBatch* batch) { batch->softcap = 1.0F; }));
    EXPECT_FALSE(takes(dtype, {2, 1, 512}, [](PagedBatch* batch) { batch->alibi_slopes = {1.0F, 0.5F}; }));
  }
  EXPECT_TRUE(takes(DType::kBF16, {8, 1, 264}, plain));
  EXPECT_FALSE(takes(DType::kF8E4M3, {8, 1, 264}, plain)) << "codes that are no whole pieces";
}

// A value that is not finite, in a tile that some rows see only in part, is NaN for the rows that see its key, and
// nothing for the others. So is its key, whose scores are multiplied before values in keys are taken out.
TEST(WgmmaFlashWide, ValuesThatAreNotFiniteReachTheRowsThatSeeThem) {
  constexpr int32_t kPoisoned = 70;
  using Case = std::pair<DType, testing::HeadShape>;
  for (const auto& [dtype, shape] : {Case{DType::kBF16, {2, 1, 576, 512}}, {DType::kF16, {2, 1, 512}}}) {
    const PagedBatch clean(dtype, shape, {{42, 0, 90}}, 1, testing::kCudaPages);
    const PagedBatch poisoned(dtype, shape, {{42, 0, 90, kPoisoned, 0}}, 2, testing::kCudaPages);
    std::vector<float> outs[2];
    for (const PagedBatch* batch : {&clean, &poisoned}) {
      std::vector<float>& out = outs[batch == &poisoned ? 1 : 0];
      out.assign(batch->out_floats(), -1.0F);
      testing::RunPagedOnHost(batch->Params(AttentionBackend::kFlash, out.data()), batch->Plan(), kWideDevice);
    }
    for (size_t i = 0; i < outs[0].size(); ++i) {
      if (i / (2 * 512) < kPoisoned) {
        ASSERT_EQ(outs[1][i], outs[0][i]) << i << " of " << shape.head_dim;
      } else {
        ASSERT_TRUE(std::isnan(outs[1][i])) << i << " of " << shape.head_dim;
      }
    }
  }
}

// Where totals are in memory it bounds the blocks of a launch.
TEST(WgmmaFlashWide, BlocksThatTakeSeveralTasksHaveMemoryForTheirTotals) {
  const AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 256, .num_heads = 32, .num_kv_heads = 8};
  const AttentionKernel& row =
      *FindKernel(AttentionKernels(), kWideDevice, AttentionBackend::kFlash, AttentionPhase::kPrefill, traits);
  const PagedAttentionPlan plan{.traits = traits, .max_query_tokens = 2048, .max_kv_tokens = 8192};
  EXPECT_GE(row.plan.paged_workspace(row.geometry, plan, kWideDevice), 132 * kWgmmaTotalBytes);
  AttentionCall call{};
  call.num_sequences = 2;
  call.num_kv_heads = 8;
  call.group = 4;
  call.values.dim = 256;
  call.max_query_tokens = 2048;
  call.max_kv_tokens = 8192;
  static float workspace[1];
  const auto blocks_with = [&](size_t bytes) -> int64_t {
    LaunchPlan launch;
    if (!row.plan.divide(row.geometry, call, kWideDevice, workspace, bytes, &launch)) return 0;
    const WgmmaFlashCall flash = WgmmaFlashCallOf(call, launch, 64);
    EXPECT_EQ(flash.tasks, 2 * 8 * 64);
    EXPECT_EQ(flash.totals, call.max_kv_tokens > kWgmmaSplitKeys ? workspace : nullptr);
    return launch.blocks;
  };
  EXPECT_EQ(row.plan.dense_workspace(row.geometry, call, kWideDevice), 132 * kWgmmaTotalBytes);
  EXPECT_EQ(blocks_with(132 * kWgmmaTotalBytes), 132);
  EXPECT_EQ(blocks_with(7 * kWgmmaTotalBytes + 1), 7);
  EXPECT_EQ(blocks_with(kWgmmaTotalBytes - 1), 0);
  call.max_kv_tokens = 1024;
  EXPECT_EQ(blocks_with(0), 132) << "one split has no totals";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
