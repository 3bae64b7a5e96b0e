// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kernel_table.h"

#include <utility>

#include "kernels/cpu/cpu_features.h"

namespace dunlin::kernels::cpu {
namespace {

// The products of inputs in 8 bits: Products::kOf<format> of each format with groups.
template <typename Products, size_t... kFormats>
constexpr Int8GemmKernels Int8KernelsOf(std::index_sequence<kFormats...>) {
  const auto kernel_of = []<WeightFormat kFormat>() -> GemmKernel* {
    if constexpr (Traits(kFormat).group != 0) return Products::template kOf<kFormat>;
    return nullptr;
  };
  return {{kernel_of.template operator()<static_cast<WeightFormat>(kFormats)>()...}, Products::kRound};
}
template <typename Products>
constexpr Int8GemmKernels kInt8KernelsOf = Int8KernelsOf<Products>(std::make_index_sequence<kNumWeightFormats>());

struct PortableInt8 {
  static constexpr RoundInputsKernel* kRound = portable::RoundInputs;
  template <WeightFormat kFormat>
  static constexpr GemmKernel* kOf = portable::Int8Gemm<kFormat>;
};
struct Avx2Int8 {
  static constexpr RoundInputsKernel* kRound = avx2::RoundInputs;
  template <WeightFormat kFormat>
  static constexpr GemmKernel* kOf = avx2::Int8Gemm<kFormat>;
};
struct Avx512Int8 {
  static constexpr RoundInputsKernel* kRound = avx512::RoundInputs;
  template <WeightFormat kFormat>
  static constexpr GemmKernel* kOf = avx512::Int8Gemm<kFormat>;
};
template <bool kIntoL2>
struct Avx512Bf16Int8 {
  static constexpr RoundInputsKernel* kRound = avx512_bf16::RoundInputs;
  template <WeightFormat kFormat>
  static constexpr GemmKernel* kOf = avx512_bf16::Int8Gemm<kFormat, kIntoL2>;
};

}  // namespace

const KernelTable& PortableKernels() {
  static const KernelTable table = {
      {{portable::GemmFp32, portable::GemmBf16, portable::GemmFp16, portable::GemmFp8, portable::GemmInt8,
        portable::GemmInt4, portable::GemmQ8, portable::GemmQ4, portable::GemmQ4Super, portable::GemmQ6Super,
        portable::GemmQ6Min, portable::GemmQ8Wide, portable::GemmQ4Zero},
       /*gemm_rows=*/128},
      kPortableRows,
      kInt8KernelsOf<PortableInt8>};
  return table;
}

const KernelTable& Avx2Kernels() {
  // 96 rows: 192 KiB of a slice of K, which fits an L2 cache of 256 KiB, as Haswell's.
  static const KernelTable table = {
      {{avx2::GemmFp32, avx2::GemmBf16, avx2::GemmFp16, avx2::GemmFp8, avx2::GemmInt8, avx2::GemmInt4, avx2::GemmQ8,
        avx2::GemmQ4, avx2::GemmQ4Super, avx2::GemmQ6Super, avx2::GemmQ6Min, avx2::GemmQ8Wide, avx2::GemmQ4Zero},
       96},
      kAvx2Rows,
      kInt8KernelsOf<Avx2Int8>};
  return table;
}

const KernelTable& Avx512Kernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, avx512::GemmBf16, avx512::GemmFp16, avx512::GemmFp8, avx512::GemmInt8, avx512::GemmInt4,
        avx512::GemmQ8, avx512::GemmQ4, avx512::GemmQ4Super, avx512::GemmQ6Super, avx512::GemmQ6Min, avx512::GemmQ8Wide,
        avx512::GemmQ4Zero},
       /*gemm_rows=*/256},
      kAvx512Rows,
      kInt8KernelsOf<Avx512Int8>};
  return table;
}

const KernelTable& Avx512Bf16Kernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, avx512_bf16::GemmBf16, avx512::GemmFp16, avx512_bf16::GemmFp8, avx512_bf16::GemmInt8,
        avx512_bf16::GemmInt4, avx512_bf16::GemmQ8, avx512_bf16::GemmQ4, avx512_bf16::GemmQ4Super,
        avx512_bf16::GemmQ6Super, avx512_bf16::GemmQ6Min, avx512_bf16::GemmQ8Wide, avx512_bf16::GemmQ4Zero},
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      kInt8KernelsOf<Avx512Bf16Int8<false>>};
  static const KernelTable l2_table = {
      {{avx512::GemmFp32L2, avx512_bf16::GemmBf16L2, avx512::GemmFp16L2, avx512_bf16::GemmFp8L2,
        avx512_bf16::GemmInt8L2, avx512_bf16::GemmInt4L2, avx512_bf16::GemmQ8L2, avx512_bf16::GemmQ4L2,
        avx512_bf16::GemmQ4SuperL2, avx512_bf16::GemmQ6SuperL2, avx512_bf16::GemmQ6MinL2, avx512_bf16::GemmQ8WideL2,
        avx512_bf16::GemmQ4ZeroL2},
       table.gemm_rows},
      kAvx512Bf16Rows,
      kInt8KernelsOf<Avx512Bf16Int8<true>>};
  return PrefersL2Prefetch() ? l2_table : table;
}

const KernelTable& AmxKernels() {
  static const KernelTable table = {
      {{avx512::GemmFp32, amx::GemmBf16, avx512::GemmFp16, amx::GemmFp8, avx512_bf16::GemmInt8, avx512_bf16::GemmInt4,
        avx512_bf16::GemmQ8, avx512_bf16::GemmQ4, avx512_bf16::GemmQ4Super, avx512_bf16::GemmQ6Super,
        avx512_bf16::GemmQ6Min, avx512_bf16::GemmQ8Wide, avx512_bf16::GemmQ4Zero},
       /*gemm_rows=*/256},
      kAvx512Bf16Rows,
      kInt8KernelsOf<Avx512Bf16Int8<false>>};
  return table;
}

}  // namespace dunlin::kernels::cpu
