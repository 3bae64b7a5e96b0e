// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels, one row each, and the choice among them.
#include <algorithm>

#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/tile_kernels.h"
#include "kernels/cuda/gemm/sm90/coded_shapes.h"
#include "kernels/cuda/gemm/sm90/grouped_wgmma_kernels.h"
#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"

namespace dunlin::kernels::cuda {
namespace {

template <typename Enum>
constexpr unsigned Bit(Enum value) {
  return 1U << static_cast<unsigned>(value);
}
constexpr unsigned kPrefill = Bit(GemmPhase::kPrefill);
constexpr unsigned kDecode = Bit(GemmPhase::kDecode);
constexpr unsigned kBoth = kPrefill | kDecode;
constexpr unsigned kFp32 = Bit(GemmOperand::kFp32);
constexpr unsigned kBf16 = Bit(GemmOperand::kBf16);
constexpr unsigned kFp16 = Bit(GemmOperand::kFp16);
constexpr unsigned kFp8 = Bit(GemmOperand::kFp8);
constexpr unsigned kFp8Blocks = Bit(GemmOperand::kFp8Blocks);
constexpr unsigned kCodes = Bit(GemmOperand::kCodes);
constexpr int32_t kLater = 1 << 30;

constexpr GemmKernel kKernels[] = {
    // The wgmma kernel, whose tile shapes have the same bits.
    {"wgmma bf16", kBf16, kBoth, 90, 90, true, PrepareWgmmaBf16, LaunchWgmmaBf16, false, kWgmmaTileShapes},
    {"wgmma fp16", kFp16, kBoth, 90, 90, true, PrepareWgmmaFp16, LaunchWgmmaFp16, false, kWgmmaTileShapes},
    {"wgmma fp8", kFp8, kBoth, 90, 90, false, PrepareWgmmaFp8, LaunchWgmmaFp8, false, kWgmmaTileShapes},
    {"wgmma fp8 blocks", kFp8Blocks, kBoth, 90, 90, false, PrepareWgmmaFp8Blocks, LaunchWgmmaFp8Blocks, false,
     kWgmmaTileShapes},
    // The same tiles with paired outputs.
    {"wgmma bf16 pairs", kBf16, kBoth, 90, 90, false, PrepareWgmmaPairsBf16, LaunchWgmmaPairsBf16, false,
     kWgmmaTileShapes, true},
    {"wgmma fp16 pairs", kFp16, kBoth, 90, 90, false, PrepareWgmmaPairsFp16, LaunchWgmmaPairsFp16, false,
     kWgmmaTileShapes, true},
    {"wgmma fp8 pairs", kFp8, kBoth, 90, 90, false, PrepareWgmmaPairsFp8, LaunchWgmmaPairsFp8, false, kWgmmaTileShapes,
     true},
    {"wgmma codes", kCodes, kBoth, 90, 90, false, PrepareWgmmaCodes, LaunchWgmmaCodes, false, kCodedShapes},
    // cuBLASLt. It takes one FP8 scale per row and per output on devices 9.x alone.
    {"cublaslt fp32", kFp32, kBoth, 80, kLater, true, nullptr, nullptr},
    {"cublaslt", kBf16 | kFp16, kPrefill, 80, kLater, true, nullptr, nullptr},
    {"cublaslt fp8", kFp8, kPrefill, 90, 99, false, nullptr, nullptr},
    {"cublaslt codes", kCodes, kPrefill, 80, kLater, false, nullptr, nullptr},
    // The tile kernel: every decode row except FP32's, and the FP8 that cuBLASLt does not take.
    {"tiles bf16", kBf16, kDecode, 80, kLater, true, PrepareTilesBf16, LaunchTilesBf16, true},
    {"tiles fp16", kFp16, kDecode, 80, kLater, true, PrepareTilesFp16, LaunchTilesFp16, true},
    {"tiles fp8", kFp8, kDecode, 90, 99, false, PrepareTilesFp8, LaunchTilesFp8, true},
    {"tiles fp8", kFp8, kBoth, 80, 89, false, PrepareTilesFp8, LaunchTilesFp8, true},
    {"tiles fp8", kFp8, kBoth, 100, kLater, false, PrepareTilesFp8, LaunchTilesFp8, true},
    {"tiles fp8 blocks", kFp8Blocks, kBoth, 80, kLater, false, PrepareTilesFp8Blocks, LaunchTilesFp8Blocks, true},
    {"tiles codes", kCodes, kDecode, 80, kLater, false, PrepareTilesCoded, LaunchTilesCoded, true},
};

static_assert(std::ranges::all_of(kKernels, [](const GemmKernel& kernel) {
  return (kernel.prepare == nullptr) == (kernel.launch == nullptr) && kernel.sm_min <= kernel.sm_max;
}));

constexpr GroupedGemmKernel kGroupedKernels[] = {
    {"grouped wgmma bf16", kBf16, 90, 90, PrepareGroupedWgmmaBf16, LaunchGroupedWgmmaBf16, kGroupedTileShapes},
    {"grouped wgmma fp16", kFp16, 90, 90, PrepareGroupedWgmmaFp16, LaunchGroupedWgmmaFp16, kGroupedTileShapes},
    {"grouped wgmma fp8", kFp8, 90, 90, PrepareGroupedWgmmaFp8, LaunchGroupedWgmmaFp8, kGroupedTileShapes},
    {"grouped wgmma fp8 blocks", kFp8Blocks, 90, 90, PrepareGroupedWgmmaFp8Blocks, LaunchGroupedWgmmaFp8Blocks,
     kGroupedTileShapes},
    {"grouped wgmma codes", kCodes, 90, 90, PrepareGroupedWgmmaCodes, LaunchGroupedWgmmaCodes, kGroupedCodedShapes},
    {"grouped gates bf16", kBf16, 90, 90, PrepareGroupedGatesBf16, LaunchGroupedGatesBf16, kGroupedTileShapes, true},
    {"grouped gates fp16", kFp16, 90, 90, PrepareGroupedGatesFp16, LaunchGroupedGatesFp16, kGroupedTileShapes, true},
};
static_assert(std::size(kKernels) + std::size(kGroupedKernels) <= 32, "a bit each");

// Of WgmmaTileShape.
constexpr int32_t kWgmmaShapeRows[kWgmmaTileShapes] = {128, 128, 64, 64, 32, 16, 8, 16, 8};

// Of GroupedTileShape, which are the first of these, and of GroupedCodedShape.
static_assert(kGroupedTileShapes <= kWgmmaTileShapes);
constexpr int32_t kGroupedCodedShapeRows[kGroupedCodedShapes] = {16, 64, 128};

// The weights that a model in a precision may have: some are FP32 in all of them, and some of 16 bits in FP8.
unsigned OperandsOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return kFp32;
    case Precision::kBf16:
      return kFp32 | kBf16;
    case Precision::kFp16:
      return kFp32 | kFp16;
    case Precision::kFp8:
      return kFp32 | kBf16 | kFp16 | kFp8 | kFp8Blocks;
    default:
      return kFp32 | kBf16 | kFp16 | kCodes;
  }
}

bool TakesPhase(const GemmKernel& kernel, int sm_version, unsigned operand, GemmPhase phase, uint32_t left_out) {
  return (left_out >> (&kernel - kKernels) & 1) == 0 && (kernel.operands & operand) != 0 &&
         (kernel.phases & Bit(phase)) != 0 && RunsOn(kernel, sm_version);
}

}  // namespace

GemmOperand OperandOf(const PackedWeight& weight) {
  if (IsCoded(weight.format)) return GemmOperand::kCodes;
  if (weight.precision == Precision::kFp32) return GemmOperand::kFp32;
  if (weight.precision == Precision::kBf16) return GemmOperand::kBf16;
  if (weight.precision == Precision::kFp16) return GemmOperand::kFp16;
  return weight.scale_block == 0 ? GemmOperand::kFp8 : GemmOperand::kFp8Blocks;
}

std::span<const int32_t> ShapeRowsOf(const GemmKernel& kernel) {
  if (kernel.checked_shapes == 0) return {};
  if (kernel.operands == kCodes) return kCodedShapeRows;
  return kWgmmaShapeRows;
}

std::span<const int32_t> ShapeRowsOf(const GroupedGemmKernel& kernel) {
  if (kernel.operands == kCodes) return kGroupedCodedShapeRows;
  return std::span(kWgmmaShapeRows).first(kGroupedTileShapes);
}

std::span<const GemmKernel> GemmKernels() {
  return kKernels;
}

std::span<const GroupedGemmKernel> GroupedGemmKernels() {
  return kGroupedKernels;
}

uint32_t BitOfGrouped(size_t index) {
  return 1U << (std::size(kKernels) + index);
}

const GroupedGemmKernel* FindGroupedKernel(int sm_version, const PackedWeight& weight, bool gates, uint32_t left_out) {
  const unsigned operand = Bit(OperandOf(weight));
  const auto* found = std::ranges::find_if(kGroupedKernels, [&](const GroupedGemmKernel& kernel) {
    return kernel.gates == gates && (kernel.operands & operand) != 0 && RunsOn(kernel, sm_version) &&
           (left_out & BitOfGrouped(static_cast<size_t>(&kernel - kGroupedKernels))) == 0;
  });
  return found == std::end(kGroupedKernels) ? nullptr : found;
}

uint32_t CheckedGemms() {
  uint32_t rows = 0;
  for (size_t i = 0; i < std::size(kGroupedKernels); ++i) rows |= BitOfGrouped(i);
  for (const GemmKernel& kernel : kKernels) rows |= (kernel.checked_shapes > 0 ? 1U : 0U) << (&kernel - kKernels);
  return rows;
}

const GemmKernel* FindGemmKernel(int sm_version, const PackedWeight& weight, GemmPhase phase, uint32_t left_out,
                                 GemmOutputs outputs) {
  const unsigned operand = Bit(OperandOf(weight));
  const auto* found = std::ranges::find_if(kKernels, [&](const GemmKernel& kernel) {
    return kernel.paired == (outputs != GemmOutputs::kRows) && TakesPhase(kernel, sm_version, operand, phase, left_out);
  });
  return found == std::end(kKernels) ? nullptr : found;
}

bool LibraryCompetes(int sm_version, const GemmKernel& kernel, const GemmParams& params) {
  if (params.deterministic || kernel.checked_shapes == 0 || kernel.paired || IsCoded(params.weight->format)) {
    return false;
  }
  const GemmKernel* behind = FindGemmKernel(sm_version, *params.weight, GemmPhase::kPrefill, CheckedGemms());
  return behind != nullptr && behind->launch == nullptr;
}

bool PhasesAgree(int sm_version, Precision precision, uint32_t left_out) {
  const unsigned operands = OperandsOf(precision);
  for (unsigned operand = 1; operand <= operands; operand <<= 1) {
    if ((operands & operand) == 0) continue;
    const auto first = [&](GemmPhase phase) {
      return std::ranges::find_if(kKernels, [&](const GemmKernel& kernel) {
        return !kernel.paired && TakesPhase(kernel, sm_version, operand, phase, left_out);
      });
    };
    const auto* decode = first(GemmPhase::kDecode);
    if (decode == std::end(kKernels) || decode->divides_depth || decode != first(GemmPhase::kPrefill)) {
      return false;
    }
  }
  return true;
}

bool ExpandsFirst(int sm_version, const PackedWeight& weight, int64_t num_rows, uint32_t left_out) {
  if (!IsCoded(weight.format) || num_rows < kExpandedRows) return false;
  const PackedWeight expanded{.data = nullptr, .precision = Precision::kBf16};
  const GemmKernel* codes = FindGemmKernel(sm_version, weight, GemmPhase::kPrefill, left_out);
  const GemmKernel* bf16 = FindGemmKernel(sm_version, expanded, GemmPhase::kPrefill, left_out);
  return codes != nullptr && bf16 != nullptr && codes->checked_shapes > 0 && bf16->checked_shapes > 0;
}

bool FusesPairs(int sm_version, const GemmParams& params, uint32_t left_out) {
  const GemmOutputs outputs = OutputsOf(params);
  return outputs != GemmOutputs::kRows && TakesPairs(params) &&
         FindGemmKernel(sm_version, *params.weight, GemmPhase::kDecode, left_out, outputs) != nullptr &&
         FindGemmKernel(sm_version, *params.weight, GemmPhase::kPrefill, left_out, outputs) != nullptr;
}

}  // namespace dunlin::kernels::cuda
