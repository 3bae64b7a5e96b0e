// SPDX-License-Identifier: Apache-2.0
// The launchers that the rows of kernels/cuda/gemm/kernel_table.cc name, on the host: the blocks of a launch in turn,
// as plain C++ from the device's source. Shared memory starts as NaN and ends with a guard.
#include <gtest/gtest.h>

#include "kernels/cuda/gemm/sm80/coded_block.h"
#include "kernels/cuda/gemm/sm80/tile_kernels.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "tests/kernels/attention/devices.h"

namespace dunlin::kernels::cuda {
namespace {

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

}  // namespace

void LaunchTilesBf16(const TileCall& call, Stream /*stream*/) {
  RunTileGroups<PlainOperand<Bf16Format>, false>(call);
}
void LaunchTilesFp16(const TileCall& call, Stream /*stream*/) {
  RunTileGroups<PlainOperand<Fp16Format>, false>(call);
}
void LaunchTilesFp8(const TileCall& call, Stream /*stream*/) {
  ASSERT_EQ(call.weight_scales, nullptr);
  RunTileGroups<CodeOperand, false>(call);
}
void LaunchTilesFp8Blocks(const TileCall& call, Stream /*stream*/) {
  ASSERT_NE(call.weight_scales, nullptr);
  RunTileGroups<CodeOperand, true>(call);
}
void LaunchTilesCoded(const TileCall& call, Stream /*stream*/) {
  ASSERT_NE(call.coded.data, nullptr);
  const int groups = GroupsOf(call);
  if (groups == 1) return RunCodedBlocks<1>(call);
  if (groups == 2) return RunCodedBlocks<2>(call);
  RunCodedBlocks<4>(call);
}
void LaunchMergeSlices(const TileCall& call, Stream /*stream*/) {
  for (int64_t row = 0; row < call.num_rows; ++row) {
    for (int64_t column = 0; column < call.columns; column += 4) MergeSlices(call, row, column);
  }
}

int PrepareTilesBf16() {
  return 0;
}
int PrepareTilesFp16() {
  return 0;
}
int PrepareTilesFp8() {
  return 0;
}
int PrepareTilesFp8Blocks() {
  return 0;
}
int PrepareTilesCoded() {
  return 0;
}

}  // namespace dunlin::kernels::cuda
