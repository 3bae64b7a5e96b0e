#include "kernels/cpu/avx2/kernels.h"

namespace dunlin::kernels::cpu {

const KernelTable& Avx2Kernels() {
  static constexpr KernelTable kTable = {
      .gemm = {avx2::GemmFp32, avx2::GemmBf16, avx2::GemmFp16, avx2::GemmFp8},
      .gemm_rows = 96,  // 192 KiB of a slice of K: what an L2 cache of 256 KiB, as Haswell's, can hold
      .norm_moments = avx2::Moments,
      .normalize = avx2::Normalize,
      .activate = avx2::Activate,
      .softcap = avx2::Softcap,
      .max_magnitude_bits = avx2::MaxMagnitudeBits,
      .to_bf16 = avx2::ToBf16,
      .to_fp16 = avx2::ToFp16,
      .to_e4m3 = avx2::ToE4M3,
      .bf16_row_bytes = sizeof(float),
      .bf16_row = avx2::Bf16RowOfFloats,
      .fp8_row = avx2::Fp8RowOfFloats,
  };
  return kTable;
}

}  // namespace dunlin::kernels::cpu
