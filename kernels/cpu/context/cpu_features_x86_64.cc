// SPDX-License-Identifier: Apache-2.0
// Source: Intel SDM volume 2A, CPUID leaves 1 and 7; volume 1, sections 14.3 (AVX), 15.2 (AVX-512) and 18.2 (AMX);
// Linux, Documentation/arch/x86/xstate.rst.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/context/cpu_features.h"

namespace dunlin::kernels::cpu {
namespace {

// The register sets that the operating system saves (XCR0). REQUIRES: OSXSAVE.
unsigned SavedRegisterSets() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool RequestTileRegisters() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // the XSAVE component
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool HasAvx2Variant() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kLeaf1Ecx = bit_FMA | bit_F16C | bit_OSXSAVE;
  if ((ecx & kLeaf1Ecx) != kLeaf1Ecx) return false;
  constexpr unsigned kXmmYmm = 0x6;
  if ((SavedRegisterSets() & kXmmYmm) != kXmmYmm) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_AVX2) != 0;
}

bool HasAvx512Variant() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!HasAvx2Variant()) return false;
  constexpr unsigned kXmmYmmOpmaskZmm = 0xE6;
  if ((SavedRegisterSets() & kXmmYmmOpmaskZmm) != kXmmYmmOpmaskZmm) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kLeaf7Ebx = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  return (ebx & kLeaf7Ebx) == kLeaf7Ebx;
}

bool HasAvx512Bf16Variant() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!HasAvx512Variant()) return false;
  constexpr unsigned kLeaf7Ecx = bit_AVX512VBMI | bit_AVX512VNNI;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kLeaf7Ecx) != kLeaf7Ecx) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & bit_AVX512BF16) != 0;
}

bool HasFastBf16Dot() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!HasAvx512Bf16Variant() || __get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return !(ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx && edx == signature_INTEL_edx);
}

bool PrefersL2Prefetch() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool amd = ebx == signature_AMD_ebx && ecx == signature_AMD_ecx && edx == signature_AMD_edx;
  if (!amd || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kZen4 = 0x19;  // and Zen 3, which has no AVX-512
  const unsigned family = (eax >> 8 & 0xF) + (eax >> 20 & 0xFF);
  return family == kZen4;
}

bool HasAmxVariant() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (!HasAvx512Bf16Variant() || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  constexpr unsigned kTileSets = 0x60000;  // configuration and data
  if ((edx & (kAmxBf16 | kAmxTile)) != (kAmxBf16 | kAmxTile)) return false;
  if ((SavedRegisterSets() & kTileSets) != kTileSets) return false;
  static const bool permitted = RequestTileRegisters();
  return permitted;
}

}  // namespace dunlin::kernels::cpu
