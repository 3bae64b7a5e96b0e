// SPDX-License-Identifier: Apache-2.0
// The division of a launch: every row, column and part has exactly one block, the workspace suffices for every call of
// its plan, and what does not fit is refused.
#include "kernels/cuda/attention/launch_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "kernels/cuda/attention/efficient/efficient.h"
#include "kernels/cuda/attention/flash/sm80/flash.h"
#include "kernels/cuda/attention/math/math.h"

namespace dunlin::kernels::cuda {
namespace {

AttentionCall Paged(int32_t sequences, int32_t query_tokens, int32_t kv_tokens, int32_t head_dim = 128) {
  static const SequenceSpan span{};
  AttentionCall call{};
  call.spans = &span;
  call.num_sequences = sequences;
  call.num_heads = 32;
  call.num_kv_heads = 8;
  call.group = 4;
  call.keys.dim = call.values.dim = head_dim;
  call.out.dtype = DType::kF32;
  call.max_query_tokens = query_tokens;
  call.max_kv_tokens = kv_tokens;
  return call;
}

PagedAttentionPlan PlanOf(const AttentionCall& call) {
  return {.traits = {.dtype = DType::kBF16, .head_dim = call.keys.dim, .num_heads = 32, .num_kv_heads = 8},
          .max_query_tokens = call.max_query_tokens,
          .max_kv_tokens = call.max_kv_tokens};
}

alignas(64) unsigned char test_workspace[64];

constexpr DeviceShape kDevice{132, 227 * 1024, 90, ~uint64_t{0}};  // an H200 without the rows of its own

const AttentionKernel& KernelOf(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device) {
  return *FindKernel(AttentionKernels(), device, backend, AttentionPhase::kPrefill, PlanOf(call).traits);
}
bool PlanLaunch(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device, void* memory,
                size_t bytes, LaunchPlan* plan) {
  const AttentionKernel& kernel = KernelOf(backend, call, device);
  return kernel.plan.divide(kernel.geometry, call, device, memory, bytes, plan);
}
size_t DenseWorkspaceBytes(AttentionBackend backend, const AttentionCall& call, const DeviceShape& device) {
  const AttentionKernel& kernel = KernelOf(backend, call, device);
  return kernel.plan.dense_workspace(kernel.geometry, call, device);
}

TEST(LaunchPlan, EveryRowColumnAndPartHasOneBlock) {
  for (const AttentionCall& call : {Paged(3, 300, 300), Paged(2, 1, 5000), Paged(40, 16, 700), Paged(1, 17, 17, 200)}) {
    for (const AttentionBackend backend : {AttentionBackend::kFlash, AttentionBackend::kEfficient}) {
      LaunchPlan plan;
      ASSERT_TRUE(PlanLaunch(backend, call, kDevice, test_workspace,
                             PagedWorkspaceBytes(kDevice, backend, PlanOf(call)), &plan));
      const int32_t parts = plan.parts.data == nullptr ? 1 : plan.parts.num_parts;
      std::set<std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t>> places;
      for (int64_t index = 0; index < plan.blocks; ++index) {
        const BlockPlace p = PlaceOf(plan, call.num_kv_heads, index);
        places.insert({p.sequence, p.kv_head, p.row_block, p.column_tile, p.part});
        ASSERT_TRUE(p.sequence >= 0 && p.sequence < call.num_sequences && p.kv_head < call.num_kv_heads);
        ASSERT_TRUE(p.row_block >= 0 && p.column_tile < plan.column_tiles && p.part < parts);
      }
      EXPECT_EQ(static_cast<int64_t>(places.size()), plan.blocks);
      EXPECT_GE(plan.row_blocks * kTileRows, call.max_query_tokens * call.group);
      EXPECT_LT((plan.row_blocks - 1) * kTileRows, call.max_query_tokens * call.group);
      const bool columns_apart = backend == AttentionBackend::kEfficient;
      EXPECT_EQ(plan.column_tiles, columns_apart ? (call.values.dim + 63) / 64 : 1);
      EXPECT_EQ(plan.blocks,
                int64_t{call.num_sequences} * call.num_kv_heads * plan.row_blocks * plan.column_tiles * parts);
    }
  }
}

TEST(LaunchPlan, KeysAreDividedWhereRowsDoNotFillTheDevice) {
  LaunchPlan plan;
  const auto parts_of = [&plan](AttentionBackend backend, const AttentionCall& call) {
    EXPECT_TRUE(
        PlanLaunch(backend, call, kDevice, test_workspace, PagedWorkspaceBytes(kDevice, backend, PlanOf(call)), &plan));
    return plan.parts.data == nullptr ? 0 : plan.parts.num_parts;
  };
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(1, 1, 8192)), 16);
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(1, 1, 8193)), 17);
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(32, 1, 8192)), 16);
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(33, 1, 8192)), 0) << "264 tasks fill it";
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(1, 17, 8192)), 0) << "more than 64 rows";
  EXPECT_EQ(parts_of(AttentionBackend::kFlash, Paged(1, 1, kSplitKeys)), 0) << "one split";
  EXPECT_EQ(parts_of(AttentionBackend::kEfficient, Paged(1, 1, 8192)), 8192 / kChunkKeys);
  EXPECT_EQ(parts_of(AttentionBackend::kMath, Paged(1, 1, 8192)), 0);
  // Without memory for parts a block walks through all keys.
  ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, Paged(1, 1, 8192), kDevice, test_workspace, 0, &plan));
  EXPECT_EQ(plan.parts.data, nullptr);
  EXPECT_EQ(plan.blocks, 8);
}

// DeepSeek's 128 heads of one KV head: two blocks of rows of a token, each with parts of its own.
TEST(LaunchPlan, KeysOfOneTokenAreDividedWhateverItsHeads) {
  AttentionCall call = Paged(2, 1, 4096, 512);
  call.num_heads = call.group = 128;
  call.num_kv_heads = 1;
  LaunchPlan plan;
  const AttentionKernel& kernel = KernelOf(AttentionBackend::kFlash, call, kDevice);
  const size_t bytes = PartBytes(kernel.geometry, call, kDevice);
  EXPECT_EQ(bytes, size_t{2 * 2 * 8 * 64} * (512 + 2) * sizeof(float));
  ASSERT_TRUE(kernel.plan.divide(kernel.geometry, call, kDevice, test_workspace, bytes, &plan));
  EXPECT_EQ(plan.row_blocks, 2);
  EXPECT_EQ(plan.column_tiles, 3);
  EXPECT_EQ(plan.parts.row_blocks, 2);
  EXPECT_EQ(plan.blocks, 2 * 2 * 3 * 8);
  std::set<int64_t> tasks;
  for (int32_t sequence = 0; sequence < 2; ++sequence) {
    for (const int32_t first_row : {0, 64}) {
      RowBlock block{};
      block.sequence.index = sequence;
      block.first_row = first_row;
      tasks.insert(plan.parts.Task(block, 1));
    }
  }
  EXPECT_EQ(tasks, (std::set<int64_t>{0, 1, 2, 3}));
  call.max_query_tokens = 2;
  EXPECT_EQ(PartBytes(kernel.geometry, call, kDevice), 0U) << "a prefill of several blocks";
}

TEST(LaunchPlan, PartsDoNotOverlap) {
  const PartialStore store{.data = nullptr, .num_parts = 5, .rows = 12, .v_head_dim = 80, .row_blocks = 1};
  EXPECT_EQ(store.floats_per_part(), 12 * 82);
  EXPECT_EQ(store.Part(2, 3) - store.Part(0, 0), (2 * 5 + 3) * 12 * 82);
}

TEST(LaunchPlan, PagedWorkspaceIsBoundedAndServesEveryShorterCall) {
  for (const AttentionBackend backend :
       {AttentionBackend::kMath, AttentionBackend::kFlash, AttentionBackend::kEfficient}) {
    const size_t bytes = PagedWorkspaceBytes(kDevice, backend, PlanOf(Paged(1, 512, 8192)));
    EXPECT_LE(bytes, size_t{64} << 20);
    LaunchPlan plan;
    for (const int32_t sequences : {1, 7, 5000}) {
      for (const int32_t tokens : {1, 16, 512}) {
        for (const int32_t kv : {512, 8192}) {
          EXPECT_TRUE(PlanLaunch(backend, Paged(sequences, tokens, kv), kDevice, test_workspace, bytes, &plan));
          if (backend == AttentionBackend::kMath) {
            EXPECT_LE(plan.OwnAs<MathPlan>().workers * plan.OwnAs<MathPlan>().score_floats * 4,
                      static_cast<int64_t>(bytes));
            EXPECT_GE(plan.OwnAs<MathPlan>().workers, 1);
          } else if (plan.parts.data != nullptr) {
            EXPECT_LE(int64_t{sequences} * 8 * plan.parts.num_parts * plan.parts.floats_per_part() * 4,
                      static_cast<int64_t>(bytes));
          }
        }
      }
    }
  }
  LaunchPlan plan;
  EXPECT_FALSE(PlanLaunch(AttentionBackend::kMath, Paged(1, 1, 8192), kDevice, test_workspace, 1000, &plan));
  EXPECT_GT(PagedWorkspaceBytes(kDevice, AttentionBackend::kMath, PlanOf(Paged(1, 1, 1 << 20))), size_t{64} << 20)
      << "one block's scores must fit";
}

TEST(LaunchPlan, DenseMathHoldsAllScores) {
  AttentionCall call = Paged(3, 200, 300);
  call.spans = nullptr;
  call.out.dtype = DType::kBF16;
  const size_t bytes = DenseWorkspaceBytes(AttentionBackend::kMath, call, kDevice);
  EXPECT_GE(bytes, size_t{3} * 32 * 200 * 300 * 4);
  LaunchPlan plan;
  EXPECT_TRUE(PlanLaunch(AttentionBackend::kMath, call, kDevice, test_workspace, bytes, &plan));
  EXPECT_EQ(plan.OwnAs<MathPlan>().workers, 3 * 8 * 13);
  EXPECT_FALSE(PlanLaunch(AttentionBackend::kMath, call, kDevice, test_workspace, bytes - 1, &plan));
}

TEST(LaunchPlan, TotalsUseTheOutputsWhereTheyAreFp32) {
  LaunchPlan plan;
  AttentionCall call = Paged(1, 600, 600);
  unsigned char out[4];
  call.out.data = out;
  ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, call, kDevice, nullptr, 0, &plan));
  EXPECT_EQ(reinterpret_cast<unsigned char*>(plan.OwnAs<FlashPlan>().totals), out);
  call.spans = nullptr;
  call.out.dtype = DType::kBF16;
  const size_t bytes = DenseWorkspaceBytes(AttentionBackend::kFlash, call, kDevice);
  EXPECT_EQ(bytes, size_t{600} * 32 * 128 * 4);
  EXPECT_FALSE(PlanLaunch(AttentionBackend::kFlash, call, kDevice, test_workspace, bytes - 1, &plan));
  ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, call, kDevice, test_workspace, bytes, &plan));
  EXPECT_EQ(reinterpret_cast<unsigned char*>(plan.OwnAs<FlashPlan>().totals), test_workspace);
  call.max_kv_tokens = kSplitKeys;
  EXPECT_EQ(DenseWorkspaceBytes(AttentionBackend::kFlash, call, kDevice), 0U);
}

// Shared memory that a block may have, by compute capability; an SM has 1 KB more, and reserves 1 KB for each block.
// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr int32_t kBlockShared[] = {163 * 1024, 99 * 1024, 99 * 1024, 227 * 1024, 227 * 1024, 99 * 1024};

TEST(LaunchPlan, FlashFitsEveryDevice) {
  for (const int32_t shared : kBlockShared) {
    SCOPED_TRACE(shared);
    for (const int32_t dim : {1, 64, 65, 128, 129, 256}) {
      const BlockGeometry geometry =
          KernelOf(AttentionBackend::kFlash, Paged(1, 1, 1, dim), {132, shared, 80}).geometry;
      EXPECT_EQ(geometry.stages, dim > 128 && shared < 160 * 1024 ? 1 : 2);
      EXPECT_LE(geometry.shared_bytes, shared);
    }
    EXPECT_LE(TileMemory<Fp32Products>::kBytes, shared);
    const int sm_bytes = shared + 1024;
    EXPECT_LE(2 * (FlashMemory<1, 2>::kBytes + 1024), sm_bytes) << "two blocks";
    if (sm_bytes >= 164 * 1024) {
      EXPECT_LE(2 * (FlashMemory<2, 2>::kBytes + 1024), sm_bytes) << "two blocks of 128 dims on an A100";
      EXPECT_LE(2 * (TileMemory<Fp32Products>::kBytes + 1024), sm_bytes);
      EXPECT_LE((FlashMemory<3, 1, true>::kBytes), shared) << "rows of 512 dims on an A100";
    }
  }
}

TEST(LaunchPlan, SmallerDevicesAreFilledByFewerBlocks) {
  const AttentionCall call = Paged(12, 1, 8192);  // 96 tasks
  const DeviceShape small{40, 99 * 1024, 86};
  LaunchPlan plan;
  for (const auto& [device, parts] : {std::pair{kDevice, true}, {small, false}}) {
    const size_t bytes = PagedWorkspaceBytes(device, AttentionBackend::kFlash, PlanOf(call));
    ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, call, device, test_workspace, bytes, &plan));
    EXPECT_EQ(plan.parts.data != nullptr, parts);
  }
}

// Decoding sequences beside a prefill chunk keep their divided keys.
TEST(LaunchPlan, SequencesOfOneTokenHaveALaunchOfTheirOwn) {
  const SequenceSpan spans[5] = {};
  AttentionCall call = Paged(5, 512, 8192);
  call.spans = spans;
  const SplitCall split = SplitByRows(call, 3);
  ASSERT_EQ(split.count, 2);
  EXPECT_EQ(split.calls[0].num_sequences, 3);
  EXPECT_EQ(split.calls[0].max_query_tokens, 1);
  EXPECT_EQ(split.calls[0].spans, spans);
  EXPECT_EQ(split.calls[1].num_sequences, 2);
  EXPECT_EQ(split.calls[1].max_query_tokens, 512);
  EXPECT_EQ(split.calls[1].spans, spans + 3);
  const size_t bytes = PagedWorkspaceBytes(kDevice, AttentionBackend::kFlash, PlanOf(call));
  LaunchPlan plan;
  ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, split.calls[0], kDevice, test_workspace, bytes, &plan));
  EXPECT_EQ(plan.parts.num_parts, 16);
  ASSERT_TRUE(PlanLaunch(AttentionBackend::kFlash, split.calls[1], kDevice, test_workspace, bytes, &plan));
  EXPECT_EQ(plan.parts.data, nullptr);
  for (const int32_t all_or_none : {0, 5}) {
    const SplitCall one = SplitByRows(call, all_or_none);
    EXPECT_EQ(one.count, 1);
    EXPECT_EQ(one.calls[0].num_sequences, 5);
  }
}

TEST(LaunchPlan, ScoresOfABlockDoNotOverlap) {
  std::set<int64_t> places;
  for (int32_t tile = 0; tile < 3; ++tile) {
    for (int warp = 0; warp < 4; ++warp) {
      for (int r = 0; r < 32; ++r) {
        for (int lane = 0; lane < 32; ++lane) places.insert(MathScoreAt(tile, warp, lane, r));
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(places.size()), MathScoreFloats(3 * 64));
  EXPECT_EQ(*places.rbegin() + 1, MathScoreFloats(3 * 64));
  EXPECT_EQ(MathScoreFloats(129), 3 * 4096);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
