// SPDX-License-Identifier: Apache-2.0
// A GEMM by the tile kernel on the host: the blocks of a launch in turn, as plain C++ from the device's source. Shared
// memory and the parts start as NaN and end with a guard.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/gemm/sm80/coded_block.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/host_matrix.h"

namespace dunlin::kernels::cuda {

template <typename Operand, int kGroups, bool kScaled>
void RunTileBlocks(const TileCall& call) {
  for (int64_t block = 0; block < TileBlocksOf(call, kGroups); ++block) {
    testing::PoisonedMemory shared(GemmMemory<kGroups, kScaled>::kBytes);
    RunTileGemm<Operand, kGroups, kScaled>(call, TilePlaceOf(call, kGroups * kGroupRows, block),
                                           reinterpret_cast<unsigned char*>(shared.data()));
    ASSERT_TRUE(shared.Intact()) << "wrote past shared memory";
  }
}

template <typename Operand, bool kScaled>
void RunTileGroups(const TileCall& call) {
  const int groups = GroupsOf(call);
  if (groups == 1) return RunTileBlocks<Operand, 1, kScaled>(call);
  if (groups == 2) return RunTileBlocks<Operand, 2, kScaled>(call);
  if constexpr (!kScaled) RunTileBlocks<Operand, 4, kScaled>(call);
}

template <int kGroups>
void RunCodedBlocks(const TileCall& call) {
  for (int64_t block = 0; block < TileBlocksOf(call, kGroups); ++block) {
    testing::PoisonedMemory shared(CodedMemory<kGroups>::kBytes);
    RunCodedGemm<kGroups>(call, TilePlaceOf(call, kGroups * kGroupRows, block),
                          reinterpret_cast<unsigned char*>(shared.data()));
    ASSERT_TRUE(shared.Intact()) << "wrote past shared memory";
  }
}

inline void RunCodedGroups(const TileCall& call) {
  const int groups = GroupsOf(call);
  if (groups == 1) return RunCodedBlocks<1>(call);
  if (groups == 2) return RunCodedBlocks<2>(call);
  RunCodedBlocks<4>(call);
}

// Rows [first, first + count), as gemm.cu computes them in one launch.
inline void RunTiles(const GemmParams& params, int64_t first, int32_t count, bool decodes) {
  const int64_t floats = PartFloatsPerRow(*params.weight, decodes) * count;
  testing::PoisonedMemory parts(static_cast<size_t>(floats) * sizeof(float));
  const TileCall call = TileCallOf(params, first, count, decodes, reinterpret_cast<float*>(parts.data()));
  ASSERT_EQ(call.slices > 1, floats > 0);
  const Precision precision = params.weight->precision;
  if (precision == Precision::kFp16) RunTileGroups<PlainOperand<Fp16Format>, false>(call);
  if (call.coded.data != nullptr) {
    RunCodedGroups(call);
  } else if (precision == Precision::kBf16) {
    RunTileGroups<PlainOperand<Bf16Format>, false>(call);
  }
  if (precision == Precision::kFp8 && call.weight_scales == nullptr) RunTileGroups<CodeOperand, false>(call);
  if (precision == Precision::kFp8 && call.weight_scales != nullptr) RunTileGroups<CodeOperand, true>(call);
  for (int64_t row = 0; call.parts != nullptr && row < count; ++row) {
    for (int64_t column = 0; column < call.columns; column += 4) MergeSlices(call, row, column);
  }
  EXPECT_TRUE(parts.Intact()) << "wrote past the parts";
}

// One operand type of the tile kernel.
struct TileOperands {
  Precision precision;
  int32_t scale_block;
};
inline constexpr TileOperands kTileOperands[] = {
    {Precision::kBf16, 0}, {Precision::kFp16, 0}, {Precision::kFp8, 0}, {Precision::kFp8, kScaleBlock}};
inline std::string NameOf(const TileOperands& operands) {
  return std::string(Name(operands.precision)) + (operands.scale_block != 0 ? " in blocks" : "");
}

}  // namespace dunlin::kernels::cuda
