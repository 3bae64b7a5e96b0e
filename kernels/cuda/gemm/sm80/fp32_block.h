// SPDX-License-Identifier: Apache-2.0
// A block of the tile GEMM on FP32 operands and 16 rows, without tensor cores: each warp multiplies its quarter of a
// tile's depth, 8 of 32 elements, in ascending order.
#pragma once

#include "kernels/cuda/gemm/sm80/tile_block.h"

namespace dunlin::kernels::cuda {

struct Fp32GemmBlock : GemmBlock<PlainOperand<Bf16Format>, 1, false> {
  using Base = GemmBlock<PlainOperand<Bf16Format>, 1, false>;

  // Four elements at a time: two rows and 16 columns of a lane.
  DUNLIN_HD void AddTile(int32_t tile, Warps* warps) const {
    const int stage = tile % kGemmStages;
    ForWarps([&](int warp) {
      ForLanes([&](int lane) {
        DUNLIN_NO_UNROLL
        for (int piece = 2 * warp; piece < 2 * warp + 2; ++piece) {
          const auto four = [&](const unsigned char* rows, int row) {
            return *reinterpret_cast<const Float4*>(rows + Layout::Piece(row, piece));
          };
          const Float4 left[2] = {four(memory.inputs(stage), ProductSlot::Row(lane, 0)),
                                  four(memory.inputs(stage), ProductSlot::Row(lane, 2))};
          DUNLIN_UNROLL
          for (int r = 0; r < 32; ++r) {
            const int column = r / 4 * 8 + ProductSlot::Column(lane, r % 4);
            const Float4 right = four(memory.weights(stage), column);
            float& sum = (*warps)[warp].at(lane, r);
            DUNLIN_UNROLL
            for (int k = 0; k < 4; ++k) sum = fmaf(left[r % 4 / 2].values[k], right.values[k], sum);
          }
        }
      });
    });
  }
};

}  // namespace dunlin::kernels::cuda
