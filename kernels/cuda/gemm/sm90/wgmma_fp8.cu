// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on E4M3 codes.
#include "kernels/cuda/gemm/sm90/wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchWgmmaFp8(const TileCall& call, Stream stream) {
  LaunchWgmma<E4M3Format>(call, TensorElement::kByte, stream);
}
int PrepareWgmmaFp8() {
  return PrepareWgmma<E4M3Format>();
}

}  // namespace dunlin::kernels::cuda
