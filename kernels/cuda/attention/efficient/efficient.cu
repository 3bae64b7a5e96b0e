// SPDX-License-Identifier: Apache-2.0
// EFFICIENT. Instantiations: BF16 keys, FP16 keys, and FP32 or E4M3 keys = 3.
#include "kernels/cuda/attention/efficient/efficient_block.h"
#include "kernels/cuda/attention/kernels.h"

namespace dunlin::kernels::cuda {
namespace {

// Two blocks per SM leave 255 registers per thread: 64 scores, 32 values of the chunk, 32 of the total.
template <typename Products>
__global__ void __launch_bounds__(kBlockThreads, 2)
    EfficientRows(const __grid_constant__ AttentionCall call, const __grid_constant__ LaunchPlan plan) {
  extern __shared__ __align__(16) unsigned char shared[];
  const BlockPlace place = PlaceOf(plan, call.num_kv_heads, blockIdx.x);
  const RowBlock rows = BlockOf(call, place.sequence, place.kv_head, place.row_block);
  if (rows.num_rows == 0) return;
  RunEfficient<Products>(call, plan.parts, rows, place.column_tile * kTileDims, place.part, shared);
}

template <typename Products>
void Launch(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  EfficientRows<Products>
      <<<static_cast<unsigned>(plan.blocks), kBlockThreads, TileMemory<Products>::kBytes, stream>>>(call, plan);
}

template <typename Products>
cudaError_t Prepare() {
  return cudaFuncSetAttribute(EfficientRows<Products>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              TileMemory<Products>::kBytes);
}

}  // namespace

void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream) {
  switch (call.keys.dtype) {
    case DType::kBF16:
      return Launch<TensorProducts<Bf16Format>>(call, plan, stream);
    case DType::kF16:
      return Launch<TensorProducts<Fp16Format>>(call, plan, stream);
    case DType::kF32:
    case DType::kF8E4M3:
      return Launch<Fp32Products>(call, plan, stream);
  }
}

cudaError_t PrepareEfficient() {
  if (const cudaError_t error = Prepare<TensorProducts<Bf16Format>>(); error != cudaSuccess) return error;
  if (const cudaError_t error = Prepare<TensorProducts<Fp16Format>>(); error != cudaSuccess) return error;
  return Prepare<Fp32Products>();
}

}  // namespace dunlin::kernels::cuda
