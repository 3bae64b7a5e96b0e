// SPDX-License-Identifier: Apache-2.0
// The launchers that the rows of kernels/cuda/attention name, on the host: the blocks of a launch in turn, as plain C++
// from the device's source. Shared memory starts as NaN and ends with a guard.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/efficient/efficient.h"
#include "kernels/cuda/attention/flash/sm80/flash.h"
#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/math/math.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/attention/host_attention.h"
#include "tests/kernels/cuda/device/thread_lanes.h"

namespace dunlin::kernels::cuda {
namespace {

// Calls run(place, rows, shared) for each of the first `blocks` places that has rows.
template <typename Run>
void ForBlocks(const BlockGeometry& geometry, const AttentionCall& call, const LaunchPlan& plan, int64_t blocks,
               const Run& run) {
  for (int64_t index = 0; index < blocks; ++index) {
    const BlockPlace place = PlaceOf(plan, call.num_kv_heads, index);
    const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block, geometry.rows);
    if (rows.num_rows == 0) continue;
    testing::PoisonedMemory shared(static_cast<size_t>(geometry.shared_bytes));
    run(index, place, rows, reinterpret_cast<unsigned char*>(shared.data()));
    EXPECT_TRUE(shared.Intact()) << "wrote past shared memory";
  }
}

}  // namespace

int PrepareMath() {
  return 0;
}
void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, Stream /*stream*/) {
  const auto own = plan.OwnAs<MathPlan>();
  ForBlocks(kMathKernel.geometry, call, plan, TasksOf(kMathKernel.geometry, call),
            [&](int64_t task, const BlockPlace&, const RowBlock& rows, unsigned char* shared) {
              RunMath(call, rows, own.scores + task % own.workers * own.score_floats, shared);
            });
}

template <typename Products>
int PrepareEfficient() {
  return 0;
}
template <typename Products>
void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, Stream /*stream*/) {
  constexpr BlockGeometry kGeometry = kEfficientGeometry<Products>;
  ForBlocks(kGeometry, call, plan, plan.blocks,
            [&](int64_t, const BlockPlace& place, const RowBlock& rows, unsigned char* shared) {
              const int32_t first_dim = place.column_tile * kGeometry.columns;
              RunEfficient<Products>(call, plan.parts, rows, first_dim, place.part, shared);
            });
}

template <typename Format, int kSlices, int kStages, bool kWide>
int PrepareFlash() {
  return 0;
}
template <typename Format, int kSlices, int kStages, bool kWide>
void LaunchFlash(const AttentionCall& call, const LaunchPlan& plan, Stream /*stream*/) {
  constexpr BlockGeometry kGeometry = kFlashGeometry<kSlices, kStages, kWide>;
  float* totals = plan.OwnAs<FlashPlan>().totals;
  ForBlocks(kGeometry, call, plan, plan.blocks,
            [&](int64_t, const BlockPlace& place, const RowBlock& rows, unsigned char* shared) {
              const int32_t first_column = place.column_tile * kGeometry.columns;
              RunFlash<TensorProducts<Format>, kSlices, kStages, kWide>(call, plan.parts, totals, rows, first_column,
                                                                        place.part, shared);
            });
}

void LaunchListKeys(const KeyListCall& gather, Stream /*stream*/) {
  constexpr int kLanes = 5;
  testing::ListedSlots().push_back(gather.num_slots);
  for (int32_t slot = 0; slot < gather.num_slots; ++slot) {
    KeyListMemory<kLanes> memory;
    RunLanes(kLanes, [&](const ThreadLanes& lanes) {
      if (slot % 2 != 0) lanes.Sync();  // the last lane begins
      ListKeys(lanes, gather, slot, &memory);
    });
  }
}

void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, Stream /*stream*/) {
  for (int32_t task = 0; task < call.num_sequences * call.num_kv_heads * plan.row_blocks; ++task) {
    const int32_t head = task / plan.row_blocks;
    const RowBlock rows =
        BlockOf(call, head / call.num_kv_heads, head % call.num_kv_heads, task % plan.row_blocks, plan.parts.rows);
    for (int32_t row = 0; row < rows.num_rows; ++row) {
      for (int32_t dim = 0; dim < call.values.dim; ++dim) {
        MergeParts(call, plan.parts, task, rows, plan.part_keys, row, dim);
      }
    }
  }
}

template int PrepareEfficient<TensorProducts<Bf16Format>>();
template int PrepareEfficient<TensorProducts<Fp16Format>>();
template int PrepareEfficient<Fp32Products>();
template void LaunchEfficient<TensorProducts<Bf16Format>>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchEfficient<TensorProducts<Fp16Format>>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchEfficient<Fp32Products>(const AttentionCall&, const LaunchPlan&, Stream);

template int PrepareFlash<Bf16Format, 1, 2>();
template int PrepareFlash<Bf16Format, 2, 2>();
template int PrepareFlash<Bf16Format, 4, 2>();
template int PrepareFlash<Bf16Format, 4, 1>();
template int PrepareFlash<Bf16Format, 3, 1, true>();
template int PrepareFlash<Fp16Format, 3, 1, true>();
template int PrepareFlash<Fp16Format, 1, 2>();
template int PrepareFlash<Fp16Format, 2, 2>();
template int PrepareFlash<Fp16Format, 4, 2>();
template int PrepareFlash<Fp16Format, 4, 1>();
template void LaunchFlash<Bf16Format, 1, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Bf16Format, 2, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Bf16Format, 4, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Bf16Format, 4, 1>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Bf16Format, 3, 1, true>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Fp16Format, 3, 1, true>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Fp16Format, 1, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Fp16Format, 2, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Fp16Format, 4, 2>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchFlash<Fp16Format, 4, 1>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda

namespace dunlin::kernels::testing {

std::vector<int32_t>& ListedSlots() {
  static auto* slots = new std::vector<int32_t>;
  return *slots;
}

}  // namespace dunlin::kernels::testing
