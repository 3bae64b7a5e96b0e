// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on BF16 operands. Instantiations: 1 and 4 groups of rows = 2.
#include "kernels/cuda/gemm/sm80/grouped_launch.cuh"

namespace dunlin::kernels::cuda {
namespace {

template <int kGroups>
using Bf16Block = GemmBlock<PlainOperand<Bf16Format>, kGroups, false>;

}  // namespace

void LaunchGroupedBf16(const GroupedCall& call, Stream stream) {
  LaunchByRows<Bf16Block<1>, Bf16Block<4>>(call, Precision::kBf16, stream);
}

int PrepareGroupedBf16() {
  return PrepareEach<Bf16Block<1>, Bf16Block<4>>();
}

}  // namespace dunlin::kernels::cuda
