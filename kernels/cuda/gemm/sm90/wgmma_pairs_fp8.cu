// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM with paired outputs on E4M3 operands.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaPairsFp8(const TileCall& call, Stream stream) {
  LaunchWgmma<E4M3Format, true>(call, TensorElement::kByte, stream);
}
int PrepareWgmmaPairsFp8() {
  return PrepareWgmma<E4M3Format, true>();
}

}  // namespace dunlin::kernels::cuda
