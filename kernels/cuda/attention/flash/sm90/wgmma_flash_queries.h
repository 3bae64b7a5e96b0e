// SPDX-License-Identifier: Apache-2.0
// Queries of FLASH by wgmma, rounded to the operands' format, in shared memory as TMA would lay them out.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_rows.h"

namespace dunlin::kernels::cuda {

template <typename Shape, typename Block>
struct WgmmaFlashQueries {
  using Format = typename Shape::Format;

  const WgmmaFlashBlock<Shape, Block>& at;

  // 8 dims from `dim` on, negated where the scale is negative.
  DUNLIN_DEVICE void LoadPiece(int32_t row, int32_t dim, uint32_t (&piece)[4]) const {
    const AttentionCall& call = at.flash.call;
    const RowTensor<const unsigned char>& query = call.query;
    const int64_t start = at.task.rows.sequence.query_start + at.task.rows.Token(row) * query.token_stride +
                          at.task.rows.Head(row) * query.head_stride + dim;
    float values[8];
    if (at.flash.whole_queries && query.dtype == DType::kF32) {
      const auto* pieces = reinterpret_cast<const Float4*>(query.data + start * 4);
      const Float4 low = pieces[0];
      const Float4 high = pieces[1];
      DUNLIN_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = i < 4 ? low.values[i % 4] : high.values[i % 4];
    } else {
      DUNLIN_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = LoadElement(query.dtype, query.data, start + i);
    }
    const float sign = call.scale < 0.0F ? -1.0F : 1.0F;
    DUNLIN_UNROLL
    for (int i = 0; i < 4; ++i) piece[i] = RoundPair<Format>(values[2 * i] * sign, values[2 * i + 1] * sign);
  }

  // 64 rows of the block from `first_row` on, by kThreads threads; zeros beyond rows and dims.
  template <int kThreads>
  DUNLIN_DEVICE void Load(int32_t first_row, uint32_t to, int thread) const {
    constexpr int kPieces = Shape::kDim / 8;  // of a row
    static_assert(64 * kPieces % kThreads == 0);
    DUNLIN_UNROLL
    for (int i = 0; i < 64 * kPieces / kThreads; ++i) {
      const int index = thread + i * kThreads;
      const int row = index / kPieces;
      const int piece = index % kPieces;
      uint32_t words[4] = {0, 0, 0, 0};
      if (first_row + row < at.task.rows.num_rows && piece * 8 < at.flash.call.keys.dim) {
        LoadPiece(first_row + row, piece * 8, words);
      }
      at.block.StorePiece(
          to + piece / 8 * Shape::kQuerySliceBytes + Swizzled(row * kSwizzleRowBytes + piece % 8 * kPieceBytes), words);
    }
  }
};

}  // namespace dunlin::kernels::cuda
