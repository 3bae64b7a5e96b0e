// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows, E4M3 codes with a scale per row.
#include "kernels/cuda/gemm/sm90/grouped_wgmma_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedWgmmaFp8(const GroupedTileCall& call, Stream stream) {
  LaunchGroupedWgmma<E4M3Format>(call, TensorElement::kByte, stream);
}
int PrepareGroupedWgmmaFp8() {
  return PrepareGroupedWgmma<E4M3Format>();
}

}  // namespace dunlin::kernels::cuda
