// SPDX-License-Identifier: Apache-2.0
// MATH, and the merge of parts. One instantiation each.
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/attention/math/math_block.h"

namespace dunlin::kernels::cuda {
namespace {

// Blocks take tasks (sequence, KV head, rows) in turn, each with its own scores.
__global__ void __launch_bounds__(kBlockThreads, 2)
    MathRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int64_t tasks = int64_t{call.num_sequences} * call.num_kv_heads * plan.row_blocks;
  float* scores = plan.scores + blockIdx.x * plan.score_floats;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const BlockPlace place = PlaceOf(plan, call.num_kv_heads, task);
    const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block);
    if (rows.num_rows == 0) continue;
    SyncBlock();  // the previous task's tiles have been read
    RunMath(call, rows, scores, shared);
  }
}

// blockIdx.x: the task. Each thread computes elements of its outputs in a stride loop.
__global__ void __launch_bounds__(kBlockThreads)
    MergedRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  const auto task = static_cast<int32_t>(blockIdx.x);
  const RowBlock rows = BlockOf(call, task / call.num_kv_heads, task % call.num_kv_heads, 0);
  const int32_t elements = rows.num_rows * call.values.dim;
  const int32_t step = static_cast<int32_t>(gridDim.y) * kBlockThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.y) * kBlockThreads + static_cast<int32_t>(threadIdx.x); i < elements;
       i += step) {
    MergeParts(call, plan.parts, rows, plan.part_keys, i / call.values.dim, i % call.values.dim);
  }
}

constexpr unsigned kMergeBlocks = 4;  // per task: 512 threads cover 4 rows of 128 columns at once

}  // namespace

void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  MathRows<<<static_cast<unsigned>(plan.blocks), kBlockThreads, TileMemory<Fp32Products>::kBytes, stream>>>(call, plan);
}

void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  const auto tasks = static_cast<unsigned>(call.num_sequences * call.num_kv_heads);
  MergedRows<<<dim3(tasks, kMergeBlocks), kBlockThreads, 0, stream>>>(call, plan);
}

cudaError_t PrepareMath() {
  return cudaFuncSetAttribute(MathRows, cudaFuncAttributeMaxDynamicSharedMemorySize, TileMemory<Fp32Products>::kBytes);
}

}  // namespace dunlin::kernels::cuda
