// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/cpu_features.h"
#include "kernels/cpu/roofs/units.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr UnitRow kUnits[] = {
    {"neon", true, NeonRounds, kNeonRoundFlops, [] { return true; }},
    {"neon_fma", true, NeonFmaRounds, kNeonFmaRoundFlops, [] { return true; }},
    {"neon_bf16_matrix", false, NeonBf16Rounds, kNeonBf16RoundFlops, HasNeonBf16Variant},
};
enum UnitIndex : uint8_t { kNeon, kNeonFma, kNeonBf16 };

}  // namespace

std::span<const UnitRow> Units() {
  return kUnits;
}

VariantUnits UnitsOf(CpuVariant variant) {
  if (variant == CpuVariant::kPortable) return {kNeon, kNeon};
  if (variant == CpuVariant::kNeonBf16) return {kNeonFma, kNeonBf16};
  return {kNeonFma, kNeonFma};
}

ReadLoop BestReadLoop() {
  return NeonRead;
}

}  // namespace dunlin::kernels::cpu
