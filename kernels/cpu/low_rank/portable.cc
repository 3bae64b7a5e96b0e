// SPDX-License-Identifier: Apache-2.0
// The kernels of low-rank adapters in plain C++ for any processor: lanes are loops, which the compiler vectorises.
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/low_rank/vector.h"
#include "kernels/cpu/simd/loop_lanes.h"

namespace dunlin::kernels::cpu {
namespace {

struct LowRankLanes : simd::LoopLanes {
  DUNLIN_INLINE Floats LoadBf16Masked(const std::byte* from, const Mask& mask) {
    return Each([&](int64_t i) { return Bf16ToFloat(BitsAt(from, i, mask)); });
  }
  DUNLIN_INLINE Floats LoadFp16Masked(const std::byte* from, const Mask& mask) {
    return Each([&](int64_t i) { return Fp16ToFloat(BitsAt(from, i, mask)); });
  }

 private:
  // 0 past the mask.
  DUNLIN_INLINE uint16_t BitsAt(const std::byte* from, int64_t i, const Mask& mask) {
    uint16_t bits = 0;
    if (i < mask.count) std::memcpy(&bits, from + 2 * i, sizeof(bits));
    return bits;
  }
};

}  // namespace

constinit const LowRankKernels kPortableLowRank = simd::LowRankKernelsOf<LowRankLanes, 2, 2, 1>();

}  // namespace dunlin::kernels::cpu
