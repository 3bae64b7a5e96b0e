// SPDX-License-Identifier: Apache-2.0
// The merge of parts. One instantiation.
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/ops/launch_after.cuh"

namespace dunlin::kernels::cuda {
namespace {

constexpr int kMergeThreads = 128;
constexpr unsigned kMergeBlocks = 4;  // per task: 512 threads cover 4 rows of 128 columns at once

// blockIdx.x: the task, all of whose rows one block has. Each thread computes elements of its outputs in a stride loop.
__global__ void __launch_bounds__(kMergeThreads, 8)  // with the bound no target spills
    MergedRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  StartEarly();
  const auto task = static_cast<int32_t>(blockIdx.x);
  const int32_t head = task / plan.row_blocks;
  const RowBlock rows =
      BlockOf(call, head / call.num_kv_heads, head % call.num_kv_heads, task % plan.row_blocks, plan.parts.rows);
  const int32_t elements = rows.num_rows * call.values.dim;
  const int32_t step = static_cast<int32_t>(gridDim.y) * kMergeThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.y) * kMergeThreads + static_cast<int32_t>(threadIdx.x); i < elements;
       i += step) {
    MergeParts(call, plan.parts, task, rows, plan.part_keys, i / call.values.dim, i % call.values.dim);
  }
}

// As LaunchesEarly, of the device that the module has opened.
bool MergesEarly() {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess && major >= 9;
}

}  // namespace

void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  static const bool early = MergesEarly();
  const auto tasks = static_cast<unsigned>(call.num_sequences * call.num_kv_heads * plan.row_blocks);
  LaunchKernel(MergedRows, dim3(tasks, kMergeBlocks), kMergeThreads, 0, early, stream, call, plan);
}

}  // namespace dunlin::kernels::cuda
