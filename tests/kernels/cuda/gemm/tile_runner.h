// SPDX-License-Identifier: Apache-2.0
// A GEMM by the tile kernel on the host, with the launchers of host_tiles.cc. The parts start as NaN and end with a
// guard.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/tile_kernels.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {

// Rows [first, first + count), as gemm.cu computes them in one launch.
inline void RunTiles(const GemmParams& params, int64_t first, int32_t count, bool decodes) {
  const int64_t floats = PartFloatsPerRow(*params.weight, decodes) * count;
  testing::PoisonedMemory parts(static_cast<size_t>(floats) * sizeof(float));
  const TileCall call = TileCallOf(params, first, count, decodes, reinterpret_cast<float*>(parts.data()));
  ASSERT_EQ(call.slices > 1, floats > 0);
  const GemmKernel* kernel = FindGemmKernel(80, *params.weight, GemmPhase::kDecode);
  ASSERT_TRUE(kernel != nullptr && kernel->launch != nullptr);
  kernel->launch(call, nullptr);
  if (call.parts != nullptr) LaunchMergeSlices(call, nullptr);
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
