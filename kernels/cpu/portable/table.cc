#include "kernels/cpu/portable/kernels.h"

namespace dunlin::kernels::cpu {

const KernelTable& PortableKernels() {
  static constexpr KernelTable kTable = {
      .gemm = {portable::GemmFp32, portable::GemmBf16, portable::GemmFp16, portable::GemmFp8},
      .gemm_rows = 128,
      .norm_moments = portable::Moments,
      .normalize = portable::Normalize,
      .activate = portable::Activate,
      .softcap = portable::Softcap,
      .max_magnitude_bits = portable::MaxMagnitudeBits,
      .to_bf16 = portable::ToBf16,
      .to_fp16 = portable::ToFp16,
      .to_e4m3 = portable::ToE4M3,
      .bf16_row_bytes = sizeof(float),
      .bf16_row = portable::Bf16Row,
      .fp8_row = portable::Fp8Row,
  };
  return kTable;
}

}  // namespace dunlin::kernels::cpu
