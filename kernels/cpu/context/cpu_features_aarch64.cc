// SPDX-License-Identifier: Apache-2.0
// Source: Linux, Documentation/arch/arm64/elf_hwcaps.rst.
#include <sys/auxv.h>

#include "kernels/cpu/context/cpu_features.h"

namespace dunlin::kernels::cpu {

bool HasNeonDotVariant() {
  constexpr unsigned long kAsimdDp = 1UL << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kAsimdDp) != 0;
}

bool HasFastBf16Dot() {
  return false;
}

bool PrefersL2Prefetch() {
  return false;
}

}  // namespace dunlin::kernels::cpu
