#include "kernels/cpu/amx/kernels.h"

namespace dunlin::kernels::cpu {

const KernelTable& AmxKernels() {
  static const KernelTable table = [] {
    KernelTable rows = Avx512Bf16DotKernels();
    rows.gemm[static_cast<int>(Precision::kBf16)] = amx::GemmBf16;
    rows.gemm[static_cast<int>(Precision::kFp8)] = amx::GemmFp8;
    rows.gemm_rows = 256;
    return rows;
  }();
  return table;
}

}  // namespace dunlin::kernels::cpu
