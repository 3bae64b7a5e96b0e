// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on FP32 operands. Instantiations: 1 group of rows.
#include "kernels/cuda/gemm/sm80/fp32_block.h"
#include "kernels/cuda/gemm/sm80/grouped_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedFp32(const GroupedCall& call, Stream stream) {
  LaunchGrouped<Fp32GemmBlock>(call, stream);
}

int PrepareGroupedFp32() {
  return PrepareEach<Fp32GemmBlock>();
}

}  // namespace dunlin::kernels::cuda
