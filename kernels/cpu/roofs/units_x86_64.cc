// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "kernels/cpu/context/cpu_features.h"
#include "kernels/cpu/roofs/units.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr UnitRow kUnits[] = {
    {"sse2", true, Sse2Rounds, kSse2RoundFlops, [] { return true; }},
    {"avx2_fma", true, Avx2FmaRounds, kAvx2FmaRoundFlops,
     [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }},
    {"avx512_fma", true, Avx512FmaRounds, kAvx512FmaRoundFlops, [] { return __builtin_cpu_supports("avx512f") != 0; }},
    {"avx512_bf16_dot", false, Avx512Bf16DotRounds, kAvx512Bf16DotRoundFlops,
     [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
    {"amx_bf16", false, AmxBf16Rounds, kAmxBf16RoundFlops, HasAmxVariant},
};
enum UnitIndex : uint8_t { kSse2, kAvx2Fma, kAvx512Fma, kAvx512Bf16Dot, kAmx, kNumUnits };
static_assert(std::size(kUnits) == kNumUnits);

}  // namespace

std::span<const UnitRow> Units() {
  return kUnits;
}

VariantUnits UnitsOf(CpuVariant variant) {
  switch (variant) {
    case CpuVariant::kAvx2:
      return {kAvx2Fma, kAvx2Fma};
    case CpuVariant::kAvx512:
      return {kAvx512Fma, kAvx512Fma};
    case CpuVariant::kAvx512Bf16:
      return {kAvx512Fma, kAvx512Bf16Dot};
    case CpuVariant::kAmxBf16:
      return {kAvx512Fma, kAmx};
    default:
      return {kSse2, kSse2};
  }
}

ReadLoop BestReadLoop() {
  if (kUnits[kAvx512Fma].available()) return Avx512Read;
  return kUnits[kAvx2Fma].available() ? Avx2Read : Sse2Read;
}

}  // namespace dunlin::kernels::cpu
