// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/kernel_table.h"

#include <initializer_list>

#include "kernels/cpu/context/cpu_features.h"
#include "kernels/cpu/context/neon_gemm_kernels.h"

namespace dunlin::kernels::cpu {
namespace {

// Of each format the kernel of the first array that has one.
GemmKernelArray Join(std::initializer_list<GemmKernelArray> arrays) {
  GemmKernelArray joined{};
  for (const GemmKernelArray& array : arrays) {
    for (size_t format = 0; format < joined.size(); ++format) {
      if (joined[format] == nullptr) joined[format] = array[format];
    }
  }
  return joined;
}

#ifdef DUNLIN_CPU_AVX512_BF16
// AMX has them, too. None prefetches into L2: it gave less than 3% of a decode step.
GemmKernelArray Avx512Bf16Grouped() {
  return Join({avx512_bf16::kIntegers4Kernels, avx512_bf16::kIntegers6Kernels, avx512_bf16::kIntegers8Kernels,
               avx512_bf16::kLevelKernels});
}
#endif

}  // namespace

const KernelTable& PortableKernels() {
  static const KernelTable table = {
      {Join({{portable::GemmFp32, portable::GemmBf16, portable::GemmFp16, portable::GemmFp8},
             portable::kGroupedKernels}),
       /*gemm_rows=*/128},
      kPortableRows,
      portable::kInt8Kernels,
      kPortableRecurrent,
      kPortableLowRank};
  return table;
}

#ifdef DUNLIN_CPU_AVX2
const KernelTable& Avx2Kernels() {
  // 96 rows: 192 KiB of a slice of K, which fits an L2 cache of 256 KiB, as Haswell's.
  static const KernelTable table = {{Join({{avx2::GemmFp32, avx2::GemmBf16, avx2::GemmFp16, avx2::GemmFp8},
                                           avx2::kIntegerKernels,
                                           avx2::kLevelKernels}),
                                     /*gemm_rows=*/96},
                                    kAvx2Rows,
                                    avx2::kInt8Kernels,
                                    kAvx2Recurrent,
                                    kAvx2LowRank};
  return table;
}
#endif

#ifdef DUNLIN_CPU_NEON
const KernelTable& NeonKernels() {
  // 128 rows: 256 KiB of a slice of K, a half of the smallest L2 cache of server cores (Neoverse N1, 512 KiB).
  static const KernelTable table = {{Join({{neon::GemmFp32, neon::GemmBf16, neon::GemmFp16, neon::GemmFp8},
                                           neon::kIntegerKernels,
                                           neon::kLevelKernels}),
                                     /*gemm_rows=*/128},
                                    kNeonRows,
                                    neon::kInt8Kernels,
                                    kNeonRecurrent,
                                    kNeonLowRank};
  return table;
}
#endif

#ifdef DUNLIN_CPU_NEON_DOT
const KernelTable& NeonDotKernels() {
  static const KernelTable table = {NeonKernels(), NeonKernels(), neon_dot::kInt8Kernels, NeonKernels(), NeonKernels()};
  return table;
}
#endif

#ifdef DUNLIN_CPU_NEON_I8MM
const KernelTable& NeonI8mmKernels() {
  static const KernelTable table = {NeonKernels(), NeonKernels(), neon_i8mm::kInt8Kernels, NeonKernels(),
                                    NeonKernels()};
  return table;
}
#endif

#ifdef DUNLIN_CPU_NEON_BF16
const KernelTable& NeonBf16Kernels() {
  static const KernelTable table = {{Join({{neon::GemmFp32, neon_bf16::GemmBf16, neon::GemmFp16, neon_bf16::GemmFp8},
                                           neon_bf16::kIntegers4Kernels,
                                           neon_bf16::kIntegers6Kernels,
                                           neon_bf16::kIntegers8Kernels,
                                           neon_bf16::kLevelKernels}),
                                     NeonKernels().gemm_rows},
                                    kNeonBf16Rows,
                                    {neon_i8mm::kInt8Kernels.int8_gemm, neon_bf16::RoundInputs},
                                    kNeonRecurrent,
                                    kNeonLowRank};
  return table;
}
#endif

#ifdef DUNLIN_CPU_AVX512
const KernelTable& Avx512Kernels() {
  static const KernelTable table = {{Join({{avx512::GemmFp32, avx512::GemmBf16, avx512::GemmFp16, avx512::GemmFp8},
                                           avx512::kIntegerKernels,
                                           avx512::kLevelKernels}),
                                     /*gemm_rows=*/256},
                                    kAvx512Rows,
                                    avx512::kInt8Kernels,
                                    kAvx512Recurrent,
                                    kAvx512LowRank};
  return table;
}
#endif

#ifdef DUNLIN_CPU_AVX512_BF16
const KernelTable& Avx512Bf16Kernels() {
  static const KernelTable table = {
      {Join({{avx512::GemmFp32, avx512_bf16::GemmBf16, avx512::GemmFp16, avx512_bf16::GemmFp8}, Avx512Bf16Grouped()}),
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent,
      kAvx512LowRank};
  static const KernelTable l2_table = {
      {Join({{avx512::GemmFp32L2, avx512_bf16::GemmBf16L2, avx512::GemmFp16L2, avx512_bf16::GemmFp8L2},
             Avx512Bf16Grouped()}),
       table.gemm_rows},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent,
      kAvx512LowRank};
  return PrefersL2Prefetch() ? l2_table : table;
}
#endif

#ifdef DUNLIN_CPU_AMX
const KernelTable& AmxKernels() {
  static const KernelTable table = {
      {Join({{avx512::GemmFp32, amx::GemmBf16, avx512::GemmFp16, amx::GemmFp8}, Avx512Bf16Grouped()}),
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent,
      kAvx512LowRank};
  return table;
}
#endif

}  // namespace dunlin::kernels::cpu
