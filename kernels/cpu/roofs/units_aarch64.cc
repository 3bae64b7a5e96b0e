// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/roofs/units.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr UnitRow kUnits[] = {
    {"neon", true, NeonRounds, kNeonRoundFlops, [] { return true; }},
    {"neon_fma", true, NeonFmaRounds, kNeonFmaRoundFlops, [] { return true; }},
};
enum UnitIndex : uint8_t { kNeon, kNeonFma };

}  // namespace

std::span<const UnitRow> Units() {
  return kUnits;
}

VariantUnits UnitsOf(CpuVariant variant) {
  if (variant == CpuVariant::kPortable) return {kNeon, kNeon};
  return {kNeonFma, kNeonFma};
}

ReadLoop BestReadLoop() {
  return NeonRead;
}

}  // namespace dunlin::kernels::cpu
