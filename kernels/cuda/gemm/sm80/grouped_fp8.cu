// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on E4M3 codes. Instantiations: 1 and 4 groups of rows, and 1 and 2 with a scale per 128 codes =
// 4.
#include "kernels/cuda/gemm/sm80/grouped_launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <int kGroups, bool kScaled>
using Fp8Block = GemmBlock<CodeOperand, kGroups, kScaled>;

}  // namespace

void LaunchGroupedFp8(const GroupedCall& call, Stream stream) {
  LaunchByRows<Fp8Block<1, false>, Fp8Block<4, false>>(call, Precision::kFp8, stream);
}
void LaunchGroupedFp8Blocks(const GroupedCall& call, Stream stream) {
  LaunchByRows<Fp8Block<1, true>, Fp8Block<2, true>>(call, Precision::kFp8, stream);
}

int PrepareGroupedFp8() {
  return PrepareEach<Fp8Block<1, false>, Fp8Block<4, false>>();
}
int PrepareGroupedFp8Blocks() {
  return PrepareEach<Fp8Block<1, true>, Fp8Block<2, true>>();
}

}  // namespace dunlin::kernels::cuda
