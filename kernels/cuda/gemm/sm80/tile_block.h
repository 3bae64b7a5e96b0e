// SPDX-License-Identifier: Apache-2.0
// A block of the tile GEMM, for kGroups * 16 rows. Tiles of 128 bytes of K are fetched by asynchronous copies, three
// ahead; each warp multiplies its quarter of a tile's depth with all rows and columns, so every operand is read, and
// widened, once per block; the four warps' sums are added in ascending order at the end. Source: PTX ISA, mma.m16n8k16
// and cp.async.
#pragma once

#include <cmath>

#include "kernels/cuda/gemm/sm80/operands.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"

namespace dunlin::kernels::cuda {

inline constexpr int kGemmStages = 4;

// The warps' sums of 16 rows, in a block's shared memory.
struct WarpSums {
  static constexpr int kStride = kTileColumns + 8;  // floats; the extra 8 put the rows of a quad on different banks
  static constexpr int kBytes = kBlockWarps * kGroupRows * kStride * 4;

  DUNLIN_HD static float* Row(unsigned char* data, int warp, int row) {
    return reinterpret_cast<float*>(data) + (warp * kGroupRows + row) * kStride;
  }
};

// A block's shared memory: stages, later reused to exchange the warps' sums.
template <int kGroups, bool kScaled>
struct GemmMemory {
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kWeights = kTileColumns * kTileBytes;
  static constexpr int kInputs = kRows * kTileBytes;
  static constexpr int kScales = kScaled ? (kTileColumns + kRows) * 4 : 0;
  static constexpr int kStage = kWeights + kInputs + kScales;
  static constexpr int kUsed = kGemmStages * kStage;
  static constexpr int kBytes = kUsed > WarpSums::kBytes ? kUsed : WarpSums::kBytes;

  unsigned char* data;
  DUNLIN_HD unsigned char* weights(int stage) const { return data + stage * kStage; }
  DUNLIN_HD unsigned char* inputs(int stage) const { return weights(stage) + kWeights; }
  DUNLIN_HD float* weight_scales(int stage) const { return reinterpret_cast<float*>(inputs(stage) + kInputs); }
  DUNLIN_HD float* in_scales(int stage) const { return weight_scales(stage) + kTileColumns; }
  DUNLIN_HD float* sums(int warp, int row) const { return WarpSums::Row(data, warp, row); }
};

template <typename Operand, int kGroups, bool kScaled, typename Memory = GemmMemory<kGroups, kScaled>>
struct GemmBlock {
  using Layout = TileLayout<2>;
  using Sums = Frag<float, 32 * kGroups>;  // registers 4 (8 group + n) + i: ProductSlot of columns 8 n ..
  using Warps = PerWarp<Sums>;
  static constexpr int kRowGroups = kGroups;

  const TileCall& call;
  TilePlace place;
  Memory memory;

  // Copies rows [first, first + 16 kCount) of a matrix, with zeros past its last row and depth.
  template <int kCount>
  DUNLIN_HD void LoadRows(const unsigned char* matrix, int64_t first, int64_t end, int32_t tile,
                          unsigned char* rows) const {
    ForThreads([&](int thread) {
      const int piece = thread % Layout::kPieces;
      const int64_t byte = int64_t{tile} * kTileBytes + piece * kPieceBytes;
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const int row = thread / Layout::kPieces + i * (kBlockThreads / Layout::kPieces);
        const bool present = first + row < end && byte < call.row_bytes;
        const unsigned char* data = present ? matrix + (first + row) * call.row_bytes + byte : matrix;
        CopyPiece(rows + Layout::Piece(row, piece), data, present);
      }
    });
  }

  DUNLIN_HD void LoadScales(int32_t tile, int stage) const {
    ForThreads([&](int thread) {
      const int64_t column = place.first_column + thread;
      if (thread < kTileColumns) {
        const bool present = column < call.columns;
        const float* scales = call.weight_scales + tile * call.weight_scale_stride;
        CopyWord(memory.weight_scales(stage) + thread, present ? scales + column : scales, present);
      } else if (thread - kTileColumns < Memory::kRows) {
        const int row = thread - kTileColumns;
        const bool present = place.first_row + row < call.num_rows;
        const float* scales = call.in_scales + tile * call.in_scale_stride;
        CopyWord(memory.in_scales(stage) + row, present ? scales + place.first_row + row : scales, present);
      }
    });
  }

  // Commits a group of copies, an empty one after the last tile.
  DUNLIN_HD void LoadTile(int32_t tile, int32_t end) const {
    const int stage = tile % kGemmStages;
    if (tile < end) {
      LoadRows<kTileColumns / kGroupRows>(call.weight, place.first_column, call.columns, tile, memory.weights(stage));
      LoadRows<kGroups>(call.in, place.first_row, call.num_rows, tile, memory.inputs(stage));
      if constexpr (kScaled) LoadScales(tile, stage);
    }
    CommitCopies();
  }

  // After a tile has arrived: makes operands of what was fetched.
  DUNLIN_HD void ExpandTile(int32_t /*tile*/) const {}

  using Left = RawFrag[kGroups][Operand::kSteps];

  // Adds 16 columns of the warp's quarter of a tile to sums; a group's start at register 4 (stride group + n).
  template <int kCount>
  DUNLIN_HD void AddPair(int warp, int stage, int pair, const Left& left, Frag<float, kCount>* sums, int stride,
                         int n) const {
    RawFrag raw;
    LoadMatrices<false>(&raw, [&](int lane) {
      return memory.weights(stage) + Layout::Piece(pair * 16 + lane % 8 + lane / 16 * 8, warp * 2 + lane / 8 % 2);
    });
    DUNLIN_UNROLL
    for (int step = 0; step < Operand::kSteps; ++step) {
      RawFrag right;
      Operand::Right(raw, step, &right);
      DUNLIN_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        MultiplyAdd<typename Operand::Format>(sums, group * stride + n, left[group][step], right, 0);
        MultiplyAdd<typename Operand::Format>(sums, group * stride + n + 1, left[group][step], right, 2);
      }
    }
  }

  // Adds products of 128 codes, multiplied by their scales.
  DUNLIN_HD void AddScaled(int stage, int pair, const Frag<float, 8 * kGroups>& products, Sums* sums) const {
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        DUNLIN_UNROLL
        for (int r = 0; r < 8; ++r) {
          const int column = pair * 16 + r / 4 * 8 + ProductSlot::Column(lane, r % 4);
          const int row = group * kGroupRows + ProductSlot::Row(lane, r % 4);
          const float scale = memory.in_scales(stage)[row] * memory.weight_scales(stage)[column];
          float& sum = sums->at(lane, 32 * group + 8 * pair + r);
          sum = fmaf(products.at(lane, 8 * group + r), scale, sum);
        }
      }
    });
  }

  DUNLIN_HD void AddTile(int32_t tile, Warps* warps) const {
    const int stage = tile % kGemmStages;
    ForWarps([&](int warp) {
      Left left;
      DUNLIN_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        RawFrag raw;
        LoadMatrices<false>(&raw, [&](int lane) {
          return memory.inputs(stage) + Layout::Piece(group * kGroupRows + lane % 16, warp * 2 + lane / 16);
        });
        DUNLIN_UNROLL
        for (int step = 0; step < Operand::kSteps; ++step) Operand::Left(raw, step, &left[group][step]);
      }
      DUNLIN_UNROLL
      for (int pair = 0; pair < kTileColumns / 16; ++pair) {
        if constexpr (kScaled) {
          Frag<float, 8 * kGroups> products;
          products.Fill(0.0F);
          AddPair(warp, stage, pair, left, &products, 2, 0);
          AddScaled(stage, pair, products, &(*warps)[warp]);
        } else {
          AddPair(warp, stage, pair, left, &(*warps)[warp], 8, 2 * pair);
        }
      }
    });
  }

  // Combines the warps' sums of 16 rows in ascending order and stores them.
  DUNLIN_HD void MergeGroup(int group, Warps* warps) const {
    SyncBlock();  // the stages have been read
    ForWarps([&](int warp) {
      const Sums& own = (*warps)[warp];
      ForLanes([&](int lane) {
        DUNLIN_UNROLL
        for (int r = 0; r < 32; ++r) {
          memory.sums(warp, ProductSlot::Row(lane, r % 4))[r / 4 * 8 + ProductSlot::Column(lane, r % 4)] =
              own.at(lane, 32 * group + r);
        }
      });
    });
    SyncBlock();
    ForThreads([&](int thread) {
      DUNLIN_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int index = thread + i * kBlockThreads;
        const int quad = index % (kTileColumns / 4) * 4;
        const int row = index / (kTileColumns / 4);
        Float4 sums = *reinterpret_cast<const Float4*>(memory.sums(0, row) + quad);
        DUNLIN_UNROLL
        for (int warp = 1; warp < kBlockWarps; ++warp) {
          const Float4 next = *reinterpret_cast<const Float4*>(memory.sums(warp, row) + quad);
          for (int k = 0; k < 4; ++k) sums.values[k] += next.values[k];
        }
        Store(place.first_row + group * kGroupRows + row, place.first_column + quad, sums);
      }
    });
  }

  DUNLIN_HD void Store(int64_t row, int64_t column, const Float4& sums) const {
    if (row >= call.num_rows || column >= call.columns) return;
    if (call.parts == nullptr) return StoreSums(call.store, row, column, sums);
    float* part = call.parts + (int64_t{place.slice} * call.num_rows + row) * call.parts_stride + column;
    *reinterpret_cast<Float4*>(part) = sums;
  }
};

template <typename Block>
DUNLIN_HD void RunGemmBlock(const Block& block) {
  typename Block::Warps warps;
  ForWarps([&](int warp) { warps[warp].Fill(0.0F); });
  const int32_t first = block.place.slice * block.call.tiles_per_slice;
  const int32_t last = first + block.call.tiles_per_slice;
  const int32_t end = last < block.call.tiles ? last : block.call.tiles;
  for (int32_t tile = first; tile < first + kGemmStages - 1; ++tile) block.LoadTile(tile, end);
  for (int32_t tile = first; tile < end; ++tile) {
    WaitForCopies<kGemmStages - 2>();
    SyncBlock();  // the tile has arrived, and the one that the next overwrites has been read
    block.LoadTile(tile + kGemmStages - 1, end);
    block.ExpandTile(tile);
    block.AddTile(tile, &warps);
  }
  DUNLIN_UNROLL
  for (int group = 0; group < Block::kRowGroups; ++group) block.MergeGroup(group, &warps);
}

template <typename Operand, int kGroups, bool kScaled>
DUNLIN_HD void RunTileGemm(const TileCall& call, const TilePlace& place, unsigned char* shared) {
  RunGemmBlock(GemmBlock<Operand, kGroups, kScaled>{call, place, {shared}});
}

}  // namespace dunlin::kernels::cuda
