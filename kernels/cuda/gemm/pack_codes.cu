// SPDX-License-Identifier: Apache-2.0
// Packing of integer codes: a thread for each half tile of a row. Rounding has the CPU's operations, so that it gives
// the CPU's codes. Instantiations: 2 of rounding, 1 of codes that exist.
#include "kernels/cuda/gemm/pack_kernels.h"

namespace dunlin::kernels::cuda {
namespace {

// One block per SM leaves 255 registers: a group's values, and two choices of its codes.
constexpr unsigned kPackThreads = 256;

template <int kBits>
__global__ void __launch_bounds__(kPackThreads, 1)
    PackRoundedCodes(const __grid_constant__ PackSource source, const __grid_constant__ CodedView weight,
                     int64_t count) {
  const int64_t index = int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  const int64_t halves = weight.tiles() * 2;
  if (index < count * halves) {
    RoundHalfTile<kBits>(source, weight, source.first_row + index / halves, index % halves);
  }
}

__global__ void __launch_bounds__(kPackThreads, 2)
    PackGivenCodes(const __grid_constant__ CodedSource source, const __grid_constant__ CodedView weight,
                   int64_t count) {
  const int64_t index = int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  const int64_t halves = weight.tiles() * 2;
  if (index < count * halves) CopyHalfTile(source, weight, source.first_row + index / halves, index % halves);
}

unsigned PackBlocks(const CodedView& weight, int64_t count) {
  return static_cast<unsigned>((count * weight.tiles() * 2 + kPackThreads - 1) / kPackThreads);
}

}  // namespace

void LaunchRoundCodes(const PackSource& source, const CodedView& weight, int64_t count, cudaStream_t stream) {
  const unsigned blocks = PackBlocks(weight, count);
  if (weight.format.code_bits == 4)
    return PackRoundedCodes<4><<<blocks, kPackThreads, 0, stream>>>(source, weight, count);
  PackRoundedCodes<8><<<blocks, kPackThreads, 0, stream>>>(source, weight, count);
}

void LaunchCopyCodes(const CodedSource& source, const CodedView& weight, int64_t count, cudaStream_t stream) {
  PackGivenCodes<<<PackBlocks(weight, count), kPackThreads, 0, stream>>>(source, weight, count);
}

}  // namespace dunlin::kernels::cuda
