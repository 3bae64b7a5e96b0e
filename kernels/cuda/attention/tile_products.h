// SPDX-License-Identifier: Apache-2.0
// The two products of attention on tiles in shared memory, for one warp: 16 query rows by 64 keys, and their 64 weights
// by 64 value dims. 2-byte operands use tensor cores, the rest FP32 fused multiply-add. A row's sums do not depend on
// other rows, and run over dims and keys in ascending order, tile by tile.
#pragma once

#include <cmath>

#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/block/tile_layout.h"

namespace dunlin::kernels::cuda {

using TileFrag = Frag<float, 32>;  // 16 rows by 64 columns: registers 4 n + i, ProductSlot

template <typename Format>
struct TensorProducts {
  using Element = uint16_t;
  using Layout = TileLayout<2>;
  static constexpr DType kDType = Format::kDType;
  static constexpr int kWeightBytes = 0;  // shared memory per warp besides the tiles

  DUNLIN_HD static uint16_t FromFloat(float value) { return Format::FromFloat(value); }
  DUNLIN_HD static bool IsFinite(uint16_t bits) { return Format::IsFinite(bits); }

  // Adds the contribution of 64 dims to the scores of the warp's rows.
  DUNLIN_HD static void AddScores(int warp, const unsigned char* queries, const unsigned char* keys, TileFrag* scores) {
    DUNLIN_UNROLL
    for (int depth = 0; depth < kTileDims / 16; ++depth) {
      Frag<uint32_t, 4> a;
      LoadMatrices<false>(
          &a, [&](int lane) { return queries + Layout::Piece(warp * 16 + lane % 16, depth * 2 + lane / 16); });
      DUNLIN_UNROLL
      for (int pair = 0; pair < kTileRows / 16; ++pair) {
        Frag<uint32_t, 4> b;
        LoadMatrices<false>(&b, [&](int lane) {
          return keys + Layout::Piece(pair * 16 + lane % 8 + lane / 16 * 8, depth * 2 + lane / 8 % 2);
        });
        MultiplyAdd<Format>(scores, pair * 2, a, b, 0);
        MultiplyAdd<Format>(scores, pair * 2 + 1, a, b, 2);
      }
    }
  }

  // Adds weights times values; the weights are rounded to the format. out: registers from 32 * slice on.
  template <int kCount>
  DUNLIN_HD static void AddValues(int /*warp*/, const TileFrag& weights, const unsigned char* values,
                                  unsigned char* /*scratch*/, Frag<float, kCount>* out, int slice) {
    DUNLIN_UNROLL
    for (int depth = 0; depth < kTileRows / 16; ++depth) {
      Frag<uint32_t, 4> a;
      ForLanes([&](int lane) {
        DUNLIN_UNROLL
        for (int r = 0; r < 4; ++r) {
          const int at = depth * 8 + r * 2;
          a.at(lane, r) = PackPair<Format>(weights.at(lane, at), weights.at(lane, at + 1));
        }
      });
      DUNLIN_UNROLL
      for (int pair = 0; pair < kTileDims / 16; ++pair) {
        Frag<uint32_t, 4> b;
        LoadMatrices<true>(
            &b, [&](int lane) { return values + Layout::Piece(depth * 16 + lane % 16, pair * 2 + lane / 16); });
        MultiplyAdd<Format>(out, slice * 8 + pair * 2, a, b, 0);
        MultiplyAdd<Format>(out, slice * 8 + pair * 2 + 1, a, b, 2);
      }
    }
  }
};

struct Fp32Products {
  using Element = float;
  using Layout = TileLayout<4>;
  static constexpr DType kDType = DType::kF32;
  static constexpr int kWeightBytes = 16 * kTileRows * 4;  // the warp's weights, 16 rows of a tile

  DUNLIN_HD static float FromFloat(float value) { return value; }
  DUNLIN_HD static bool IsFinite(float value) { return MagnitudeBits(value) < 0x7F800000U; }

  DUNLIN_HD static const Float4& At(const unsigned char* tile, int row, int piece) {
    return *reinterpret_cast<const Float4*>(tile + Layout::Piece(row, piece));
  }

  DUNLIN_HD static void AddScores(int warp, const unsigned char* queries, const unsigned char* keys, TileFrag* scores) {
    ForLanes([&](int lane) {
      const int row = warp * 16 + lane / 4;
      DUNLIN_NO_UNROLL
      for (int piece = 0; piece < Layout::kPieces; ++piece) {
        const Float4 low = At(queries, row, piece);
        const Float4 high = At(queries, row + 8, piece);
        DUNLIN_UNROLL
        for (int column = 0; column < 16; ++column) {
          const int n = column / 2;
          const int i = column % 2;
          const Float4 key = At(keys, n * 8 + lane % 4 * 2 + i, piece);
          float& first = scores->at(lane, 4 * n + i);
          float& second = scores->at(lane, 4 * n + 2 + i);
          DUNLIN_UNROLL
          for (int d = 0; d < 4; ++d) {
            first = fmaf(low.values[d], key.values[d], first);
            second = fmaf(high.values[d], key.values[d], second);
          }
        }
      }
    });
  }

  template <int kCount>
  DUNLIN_HD static void AddValues(int warp, const TileFrag& weights, const unsigned char* values,
                                  unsigned char* scratch, Frag<float, kCount>* out, int slice) {
    unsigned char* own = scratch + warp * kWeightBytes;
    SyncWarp();  // the previous tile's weights have been read
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int r = 0; r < 32; ++r) {
        const int at = Layout::Element(ProductSlot::Row(lane, r % 4), r / 4 * 8 + ProductSlot::Column(lane, r % 4));
        *reinterpret_cast<float*>(own + at) = weights.at(lane, r);
      }
    });
    SyncWarp();
    ForLanes([&](int lane) {
      DUNLIN_NO_UNROLL
      for (int piece = 0; piece < Layout::kPieces; ++piece) {
        const Float4 low = At(own, lane / 4, piece);
        const Float4 high = At(own, lane / 4 + 8, piece);
        DUNLIN_UNROLL
        for (int k = 0; k < 4; ++k) {
          const int key = piece * 4 + k;
          DUNLIN_UNROLL
          for (int n = 0; n < 8; ++n) {
            const int at = Layout::Element(key, n * 8 + lane % 4 * 2);
            const auto* pair = reinterpret_cast<const float*>(values + at);
            DUNLIN_UNROLL
            for (int i = 0; i < 2; ++i) {
              float& first = out->at(lane, slice * 32 + 4 * n + i);
              float& second = out->at(lane, slice * 32 + 4 * n + 2 + i);
              first = fmaf(low.values[k], pair[i], first);
              second = fmaf(high.values[k], pair[i], second);
            }
          }
        }
      }
    });
  }
};

}  // namespace dunlin::kernels::cuda
