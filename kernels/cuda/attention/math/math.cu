// SPDX-License-Identifier: Apache-2.0
// MATH. One instantiation.
#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/math/math.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr BlockGeometry kGeometry = kMathKernel.geometry;

// Blocks take tasks (sequence, KV head, rows) in turn, each with its own scores.
__global__ void __launch_bounds__(kGeometry.threads, 2)
    MathRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto own = plan.OwnAs<MathPlan>();
  const int64_t tasks = int64_t{call.num_sequences} * call.num_kv_heads * plan.row_blocks;
  float* scores = own.scores + blockIdx.x * own.score_floats;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const BlockPlace place = PlaceOf(plan, call.num_kv_heads, task);
    const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block, kGeometry.rows);
    if (rows.num_rows == 0) continue;
    SyncBlock();  // the previous task's tiles have been read
    RunMath(call, rows, scores, shared);
  }
}

}  // namespace

void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  MathRows<<<static_cast<unsigned>(plan.blocks), kGeometry.threads, kGeometry.shared_bytes, stream>>>(call, plan);
}

int PrepareMath() {
  return cudaFuncSetAttribute(MathRows, cudaFuncAttributeMaxDynamicSharedMemorySize, kGeometry.shared_bytes);
}

}  // namespace dunlin::kernels::cuda
