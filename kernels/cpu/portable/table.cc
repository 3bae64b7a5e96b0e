#include "kernels/cpu/portable/kernels.h"

namespace dunlin::kernels::cpu {

const KernelTable& PortableKernels() {
  static constexpr KernelTable kTable = {
      .gemm = {portable::GemmFp32, portable::GemmBf16, portable::GemmFp16, portable::GemmFp8},
      .norm_moments = portable::Moments,
      .normalize = portable::Normalize,
      .activate = portable::Activate,
      .max_magnitude_bits = portable::MaxMagnitudeBits,
      .to_bf16 = portable::ToBf16,
      .to_fp16 = portable::ToFp16,
      .to_e4m3 = portable::ToE4M3,
      .to_e4m3_in_bf16 = portable::ToE4M3InBf16,
  };
  return kTable;
}

}  // namespace dunlin::kernels::cpu
