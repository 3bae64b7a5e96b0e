// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on integer codes. Instantiations: 1 and 4 groups of rows = 2.
#include "kernels/cuda/gemm/sm80/grouped_launch.cuh"

namespace dunlin::kernels::cuda {

void LaunchGroupedCoded(const GroupedCall& call, Stream stream) {
  LaunchByRows<CodedGemmBlock<1>, CodedGemmBlock<4>>(call, Precision::kBf16, stream);
}

int PrepareGroupedCoded() {
  return PrepareEach<CodedGemmBlock<1>, CodedGemmBlock<4>>();
}

}  // namespace dunlin::kernels::cuda
