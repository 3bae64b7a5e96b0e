// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/kernel_table.h"

#include "kernels/cpu/context/cpu_features.h"

namespace dunlin::kernels::cpu {

const KernelTable& PortableKernels() {
  static const KernelTable table = {
      {{portable::GemmFp32, portable::GemmBf16, portable::GemmFp16, portable::GemmFp8, portable::GemmInt8,
        portable::GemmInt4, portable::GemmQ8, portable::GemmQ4, portable::GemmQ4Super, portable::GemmQ6Super,
        portable::GemmQ6Min, portable::GemmQ8Wide, portable::GemmQ4Zero, portable::GemmIq2, portable::GemmIq3,
        portable::GemmOdd, portable::GemmOddFine, portable::GemmIq4, portable::GemmE2M1},
       /*gemm_rows=*/128},
      kPortableRows,
      portable::kInt8Kernels,
      kPortableRecurrent};
  return table;
}

#ifdef DUNLIN_CPU_AVX2
const KernelTable& Avx2Kernels() {
  // 96 rows: 192 KiB of a slice of K, which fits an L2 cache of 256 KiB, as Haswell's.
  static const KernelTable table = {
      {{avx2::GemmFp32, avx2::GemmBf16, avx2::GemmFp16, avx2::GemmFp8, avx2::GemmInt8, avx2::GemmInt4, avx2::GemmQ8,
        avx2::GemmQ4, avx2::GemmQ4Super, avx2::GemmQ6Super, avx2::GemmQ6Min, avx2::GemmQ8Wide, avx2::GemmQ4Zero,
        avx2::GemmIq2, avx2::GemmIq3, avx2::GemmOdd, avx2::GemmOddFine, avx2::GemmIq4, avx2::GemmE2M1},
       96},
      kAvx2Rows,
      avx2::kInt8Kernels,
      kAvx2Recurrent};
  return table;
}
#endif

#ifdef DUNLIN_CPU_AVX512
const KernelTable& Avx512Kernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, avx512::GemmBf16, avx512::GemmFp16, avx512::GemmFp8, avx512::GemmInt8, avx512::GemmInt4,
        avx512::GemmQ8, avx512::GemmQ4, avx512::GemmQ4Super, avx512::GemmQ6Super, avx512::GemmQ6Min, avx512::GemmQ8Wide,
        avx512::GemmQ4Zero, avx512::GemmIq2, avx512::GemmIq3, avx512::GemmOdd, avx512::GemmOddFine, avx512::GemmIq4,
        avx512::GemmE2M1},
       /*gemm_rows=*/256},
      kAvx512Rows,
      avx512::kInt8Kernels,
      kAvx512Recurrent};
  return table;
}
#endif

#ifdef DUNLIN_CPU_AVX512_BF16
const KernelTable& Avx512Bf16Kernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, avx512_bf16::GemmBf16, avx512::GemmFp16, avx512_bf16::GemmFp8, avx512_bf16::GemmInt8,
        avx512_bf16::GemmInt4, avx512_bf16::GemmQ8, avx512_bf16::GemmQ4, avx512_bf16::GemmQ4Super,
        avx512_bf16::GemmQ6Super, avx512_bf16::GemmQ6Min, avx512_bf16::GemmQ8Wide, avx512_bf16::GemmQ4Zero,
        avx512_bf16::GemmIq2, avx512_bf16::GemmIq3, avx512_bf16::GemmOdd, avx512_bf16::GemmOddFine,
        avx512_bf16::GemmIq4, avx512_bf16::GemmE2M1},
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent};
  // Kernels of integer codes have no twin: it gave less than 3% of a decode step.
  static const KernelTable l2_table = {
      {{avx512::GemmFp32L2, avx512_bf16::GemmBf16L2, avx512::GemmFp16L2, avx512_bf16::GemmFp8L2, avx512_bf16::GemmInt8,
        avx512_bf16::GemmInt4, avx512_bf16::GemmQ8, avx512_bf16::GemmQ4, avx512_bf16::GemmQ4Super,
        avx512_bf16::GemmQ6Super, avx512_bf16::GemmQ6Min, avx512_bf16::GemmQ8Wide, avx512_bf16::GemmQ4Zero,
        avx512_bf16::GemmIq2, avx512_bf16::GemmIq3, avx512_bf16::GemmOdd, avx512_bf16::GemmOddFine,
        avx512_bf16::GemmIq4, avx512_bf16::GemmE2M1},
       table.gemm_rows},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent};
  return PrefersL2Prefetch() ? l2_table : table;
}
#endif

#ifdef DUNLIN_CPU_AMX
const KernelTable& AmxKernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, amx::GemmBf16, avx512::GemmFp16, amx::GemmFp8, avx512_bf16::GemmInt8, avx512_bf16::GemmInt4,
        avx512_bf16::GemmQ8, avx512_bf16::GemmQ4, avx512_bf16::GemmQ4Super, avx512_bf16::GemmQ6Super,
        avx512_bf16::GemmQ6Min, avx512_bf16::GemmQ8Wide, avx512_bf16::GemmQ4Zero, avx512_bf16::GemmIq2,
        avx512_bf16::GemmIq3, avx512_bf16::GemmOdd, avx512_bf16::GemmOddFine, avx512_bf16::GemmIq4,
        avx512_bf16::GemmE2M1},
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      avx512_bf16::kInt8Kernels,
      kAvx512Recurrent};
  return table;
}
#endif

}  // namespace dunlin::kernels::cpu
