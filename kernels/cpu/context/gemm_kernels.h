// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels of the CPU variants: what the launcher (gemm.cc) calls on one worker.
// Bit contract: an output element depends on its own row and column alone, not on how rows were grouped into blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kGemmRowsMax = 256;     // rows of one GemmBlock
inline constexpr int64_t kGemmPanelsMax = 8;     // panels that are computed together, slice by slice of K
inline constexpr int64_t kGemmDepthBlock = 512;  // steps of K in a decoded panel slice; a multiple of 4

// Scratch of one worker: partial sums [kGemmPanelsMax][kGemmRowsMax][48], then a panel slice [kGemmDepthBlock][48] of
// floats.
inline constexpr size_t kGemmSumBytes = static_cast<size_t>(kGemmRowsMax) * 48 * sizeof(float);
inline constexpr size_t kScratchBytes =
    kGemmPanelsMax * kGemmSumBytes + static_cast<size_t>(kGemmDepthBlock) * 48 * sizeof(float);

// After it, for the launcher: a block's output before it is rounded into GemmParams::next.
inline constexpr size_t kBlockOutBytes = kGemmPanelsMax * kGemmSumBytes;
inline constexpr size_t kWorkerBytes = kScratchBytes + kBlockOutBytes;

// A block of the product: `rows` rows by consecutive panels. Pointers are at the block's first row and column.
// Block scales: out = sum over blocks, ascending, of (sum of the block) * (activation scale * weight scale).
// Grouped formats: out = sum over groups, ascending, of (sum of activation * code - zero point * group sum) * scale, or
// of sum of activation * code * scale, then - minimum * group sum. With inputs rounded to 8 bits a group's sum is that
// of integers, exact, times the scale of the row's group, and the group sum is InputGroup::sum.
struct GemmBlock {
  const std::byte* activation;  // [rows], activation_stride bytes apart; of inputs in 8 bits the coded rows
  size_t activation_stride;
  const float* activation_scale;  // [rows, scales_per_row], FP8 only
  const std::byte* panels;        // panel_bytes apart
  size_t panel_bytes;
  const float* weight_scale;      // [panels, scales_per_row, 48], FP8 only
  int64_t scales_per_row;         // 1: applied to the whole sum; more: to the sum of each kScaleBlock elements of K
  const std::byte* group_scales;  // grouped formats only (packed_layout.h), group_scale_bytes a panel
  size_t group_scale_bytes;
  int64_t groups;           // of K
  size_t group_sum_offset;  // from a row to the sums of its groups, [groups] floats; read with zero points and minima;
                            // from a coded row to its groups, [groups] InputGroup
  int64_t padded_depth;     // K as stored in a panel
  const float* bias;        // [columns] or null
  const float* residual;    // [rows], out_stride floats apart, or null; may be out
  float* out;
  int64_t out_stride;
  int32_t rows;        // 1 <= rows <= kGemmRowsMax
  int32_t columns;     // > 0; the last panel may be partial
  std::byte* scratch;  // kScratchBytes, 64-byte aligned
};

using GemmKernel = void(const GemmBlock&);

// Rounds a row of BF16 values, of `columns` elements of the variant's bf16_row_bytes and zeros up to a multiple of 16,
// to 8 bits in the groups of a format, in the order of its kernel: `coded` is CodedRow.
using RoundInputsKernel = void(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded);

// Kernels by WeightFormat; null: none of that format here.
using GemmKernelArray = std::array<GemmKernel*, kNumWeightFormats>;

struct GemmKernels {
  GemmKernelArray gemm;
  int64_t gemm_rows;  // rows of a block that fit the caches best, <= kGemmRowsMax; a multiple of 8
};

// Of PackedWeight::int8_inputs.
struct Int8GemmKernels {
  GemmKernelArray int8_gemm;  // null for formats without groups
  RoundInputsKernel* round_inputs;
};

// Formats with groups; of them, those whose codes are integers, of one width or any, or those of a table.
constexpr bool HasGroups(const WeightFormatTraits& format) {
  return format.group != 0;
}
constexpr bool HasIntegers(const WeightFormatTraits& format) {
  return HasGroups(format) && format.levels == CodeLevels::kIntegers;
}
template <int32_t kBits>
constexpr bool HasIntegersOf(const WeightFormatTraits& format) {
  return HasIntegers(format) && format.code_bits == kBits;
}
constexpr bool HasLevels(const WeightFormatTraits& format) {
  return HasGroups(format) && !HasIntegers(format);
}

// Products::Gemm<format> of every format that kTakes.
template <typename Products, bool (*kTakes)(const WeightFormatTraits&), size_t... kFormats>
constexpr GemmKernelArray MakeGemmKernels(std::index_sequence<kFormats...>) {
  const auto kernel_of = []<WeightFormat kFormat>() -> GemmKernel* {
    if constexpr (kTakes(Traits(kFormat))) return Products::template Gemm<kFormat>;
    return nullptr;
  };
  return {kernel_of.template operator()<static_cast<WeightFormat>(kFormats)>()...};
}
template <typename Products, bool (*kTakes)(const WeightFormatTraits&)>
constexpr GemmKernelArray MakeGemmKernels() {
  return MakeGemmKernels<Products, kTakes>(std::make_index_sequence<kNumWeightFormats>());
}

// Products::Gemm<format> of every format with groups, and Products::Round.
template <typename Products>
constexpr Int8GemmKernels MakeInt8Kernels() {
  return {MakeGemmKernels<Products, HasGroups>(), Products::Round};
}

// Compiled with their variant's flags, in a translation unit for each of these or several of the first four. Activation
// rows of bf16 and fp8 are floats in the variants that multiply by FMA, BF16 in avx512_bf16 and amx.
namespace portable {
GemmKernel GemmFp32, GemmBf16, GemmFp16, GemmFp8;
extern const GemmKernelArray kGroupedKernels;  // HasGroups
extern const Int8GemmKernels kInt8Kernels;
}  // namespace portable
namespace avx2 {
GemmKernel GemmFp32, GemmBf16, GemmFp16, GemmFp8;
extern const GemmKernelArray kIntegerKernels;  // HasIntegers
extern const GemmKernelArray kLevelKernels;    // HasLevels
extern const Int8GemmKernels kInt8Kernels;
}  // namespace avx2
namespace avx512 {
GemmKernel GemmFp32, GemmBf16, GemmFp16, GemmFp8;
GemmKernel GemmFp32L2, GemmFp16L2;             // prefetch into L2
extern const GemmKernelArray kIntegerKernels;  // HasIntegers
extern const GemmKernelArray kLevelKernels;    // HasLevels
extern const Int8GemmKernels kInt8Kernels;
}  // namespace avx512
namespace avx512_bf16 {
GemmKernel GemmBf16, GemmFp8;
GemmKernel GemmBf16L2, GemmFp8L2;                                                      // prefetch into L2
extern const GemmKernelArray kIntegers4Kernels, kIntegers6Kernels, kIntegers8Kernels;  // HasIntegersOf<4>, 6 and 8
extern const GemmKernelArray kLevelKernels;                                            // HasLevels
extern const Int8GemmKernels kInt8Kernels;
}  // namespace avx512_bf16
namespace neon {
GemmKernel GemmFp32, GemmBf16, GemmFp16, GemmFp8;
extern const GemmKernelArray kIntegerKernels;  // HasIntegers
extern const GemmKernelArray kLevelKernels;    // HasLevels
extern const Int8GemmKernels kInt8Kernels;
}  // namespace neon
namespace neon_dot {
extern const Int8GemmKernels kInt8Kernels;
}  // namespace neon_dot
namespace amx {
GemmKernel GemmBf16, GemmFp8;
}

}  // namespace dunlin::kernels::cpu
