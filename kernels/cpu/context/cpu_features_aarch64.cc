// SPDX-License-Identifier: Apache-2.0
// Source: Linux, Documentation/arch/arm64/elf_hwcaps.rst.
#include <sys/auxv.h>

#include "kernels/cpu/context/cpu_features.h"

namespace dunlin::kernels::cpu {

bool HasNeonDotVariant() {
  constexpr unsigned long kAsimdDp = 1UL << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kAsimdDp) != 0;
}

bool HasNeonI8mmVariant() {
  constexpr unsigned long kI8mm = 1UL << 13;  // HWCAP2_I8MM
  return HasNeonDotVariant() && (getauxval(AT_HWCAP2) & kI8mm) != 0;
}

bool HasNeonBf16Variant() {
  constexpr unsigned long kBf16 = 1UL << 14;  // HWCAP2_BF16
  return HasNeonI8mmVariant() && (getauxval(AT_HWCAP2) & kBf16) != 0;
}

bool HasFastBf16Dot() {
  return false;
}

bool PrefersL2Prefetch() {
  return false;
}

}  // namespace dunlin::kernels::cpu
