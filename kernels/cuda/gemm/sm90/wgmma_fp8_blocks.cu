// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on E4M3 codes with a scale per 128 of them.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaFp8Blocks(const TileCall& call, Stream stream) {
  LaunchWgmma<E4M3Blocks>(call, TensorElement::kByte, stream);
}
int PrepareWgmmaFp8Blocks() {
  return PrepareWgmma<E4M3Blocks>();
}

}  // namespace dunlin::kernels::cuda
