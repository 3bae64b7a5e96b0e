// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on FP16 operands. Instantiations: 1 and 4 groups of rows = 2.
#include "kernels/cuda/gemm/sm80/grouped_launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <int kGroups>
using Fp16Block = GemmBlock<PlainOperand<Fp16Format>, kGroups, false>;

}  // namespace

void LaunchGroupedFp16(const GroupedCall& call, Stream stream) {
  LaunchByRows<Fp16Block<1>, Fp16Block<4>>(call, Precision::kFp16, stream);
}

int PrepareGroupedFp16() {
  return PrepareEach<Fp16Block<1>, Fp16Block<4>>();
}

}  // namespace dunlin::kernels::cuda
