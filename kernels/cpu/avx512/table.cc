#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/cpu_features.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr KernelTable kFmaTable = {
    .gemm = {avx512::GemmFp32, avx512::GemmBf16Fma, avx512::GemmFp16, avx512::GemmFp8Fma},
    .gemm_rows = 256,
    .norm_moments = avx512::Moments,
    .normalize = avx512::Normalize,
    .activate = avx512::Activate,
    .softcap = avx512::Softcap,
    .max_magnitude_bits = avx512::MaxMagnitudeBits,
    .to_bf16 = avx512::ToBf16,
    .to_fp16 = avx512::ToFp16,
    .to_e4m3 = avx512::ToE4M3,
    .bf16_row_bytes = sizeof(float),
    .bf16_row = avx512::Bf16RowOfFloats,
    .fp8_row = avx512::Fp8RowOfFloats,
};

constexpr KernelTable MakeBf16DotTable() {
  KernelTable table = kFmaTable;
  table.gemm[static_cast<int>(Precision::kBf16)] = avx512::GemmBf16Dot;
  table.gemm[static_cast<int>(Precision::kFp8)] = avx512::GemmFp8Dot;
  table.bf16_row_bytes = sizeof(uint16_t);
  table.bf16_row = avx512::Bf16RowOfBf16;
  table.fp8_row = avx512::Fp8RowOfBf16;
  return table;
}
constexpr KernelTable kBf16DotTable = MakeBf16DotTable();

constexpr KernelTable MakeBf16DotL2Table() {
  KernelTable table = kBf16DotTable;
  table.gemm[static_cast<int>(Precision::kFp32)] = avx512::GemmFp32AskL2;
  table.gemm[static_cast<int>(Precision::kBf16)] = avx512::GemmBf16DotAskL2;
  table.gemm[static_cast<int>(Precision::kFp16)] = avx512::GemmFp16AskL2;
  table.gemm[static_cast<int>(Precision::kFp8)] = avx512::GemmFp8DotAskL2;
  return table;
}
constexpr KernelTable kBf16DotL2Table = MakeBf16DotL2Table();

}  // namespace

const KernelTable& Avx512Kernels() {
  return kFmaTable;
}
const KernelTable& Avx512Bf16DotKernels() {
  return AsksL2Freely() ? kBf16DotL2Table : kBf16DotTable;
}

}  // namespace dunlin::kernels::cpu
