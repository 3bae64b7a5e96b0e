// Source: Intel SDM volume 2A, CPUID leaves 1 and 7; volume 1, section 15.2 (detection of AVX-512).
#include "kernels/cpu/cpu_features.h"

#include <cpuid.h>

namespace dunlin::kernels::cpu {
namespace {

// The register sets that the operating system saves (XCR0). REQUIRES: OSXSAVE.
unsigned SavedRegisterSets() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

bool HasAvx512Variant() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kLeaf1Ecx = bit_FMA | bit_F16C | bit_OSXSAVE;
  if ((ecx & kLeaf1Ecx) != kLeaf1Ecx) return false;
  constexpr unsigned kXmmYmmOpmaskZmm = 0xE6;
  if ((SavedRegisterSets() & kXmmYmmOpmaskZmm) != kXmmYmmOpmaskZmm) return false;

  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kLeaf7Ebx = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  if ((ebx & kLeaf7Ebx) != kLeaf7Ebx || (ecx & bit_AVX512VBMI) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & bit_AVX512BF16) != 0;
}

bool HasFastBf16Dot() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!HasAvx512Variant() || __get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return !(ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx && edx == signature_INTEL_edx);
}

}  // namespace dunlin::kernels::cpu
