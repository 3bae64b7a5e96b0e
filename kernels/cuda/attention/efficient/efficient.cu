// SPDX-License-Identifier: Apache-2.0
// EFFICIENT. Instantiations: BF16 keys, FP16 keys, and FP32 or E4M3 keys = 3.
#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/efficient/efficient.h"

namespace dunlin::kernels::cuda {
namespace {

// Two blocks per SM leave 255 registers per thread: 64 scores, 32 values of the chunk, 32 of the total.
template <typename Products>
__global__ void __launch_bounds__(kEfficientGeometry<Products>.threads, 2)
    EfficientRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr BlockGeometry kGeometry = kEfficientGeometry<Products>;
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block, kGeometry.rows);
  if (rows.num_rows == 0) return;
  RunEfficient<Products>(call, plan.parts, rows, place.column_tile * kGeometry.columns, place.part, shared);
}

}  // namespace

template <typename Products>
int PrepareEfficient() {
  return cudaFuncSetAttribute(EfficientRows<Products>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kEfficientGeometry<Products>.shared_bytes);
}

template <typename Products>
void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, Stream stream) {
  constexpr BlockGeometry kGeometry = kEfficientGeometry<Products>;
  EfficientRows<Products>
      <<<static_cast<unsigned>(plan.blocks), kGeometry.threads, kGeometry.shared_bytes, stream>>>(call, plan);
}

template int PrepareEfficient<TensorProducts<Bf16Format>>();
template int PrepareEfficient<TensorProducts<Fp16Format>>();
template int PrepareEfficient<Fp32Products>();
template void LaunchEfficient<TensorProducts<Bf16Format>>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchEfficient<TensorProducts<Fp16Format>>(const AttentionCall&, const LaunchPlan&, Stream);
template void LaunchEfficient<Fp32Products>(const AttentionCall&, const LaunchPlan&, Stream);

}  // namespace dunlin::kernels::cuda
