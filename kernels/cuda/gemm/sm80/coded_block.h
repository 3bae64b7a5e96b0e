// SPDX-License-Identifier: Apache-2.0
// A block of the tile GEMM on weights of integer codes: codes and the numbers of their groups are fetched by
// asynchronous copies, three tiles ahead as the inputs, and a tile is expanded to BF16 in shared memory before it is
// multiplied. Sums have the bits that the expanded weight would give the BF16 kernel.
#pragma once

#include "kernels/cuda/gemm/sm80/tile_block.h"

namespace dunlin::kernels::cuda {

// A block's shared memory: the expanded tile of weights, then the stages; later reused as GemmMemory.
template <int kGroups>
struct CodedMemory {
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kWeights = kTileColumns * kTileBytes;
  static constexpr int kInputs = kRows * kTileBytes;
  static constexpr int kCodes = kTileColumns * kCodeTileBytesMax;
  static constexpr int kNumbers = kTileColumns * kNumberBytesMax;
  static constexpr int kStage = kInputs + kCodes + kNumbers;
  static constexpr int kUsed = kWeights + kGemmStages * kStage;
  static constexpr int kBytes = kUsed > WarpSums::kBytes ? kUsed : WarpSums::kBytes;

  unsigned char* data;
  DUNLIN_HD unsigned char* weights(int /*stage*/) const { return data; }
  DUNLIN_HD unsigned char* inputs(int stage) const { return data + kWeights + stage * kStage; }
  DUNLIN_HD unsigned char* codes(int stage) const { return inputs(stage) + kInputs; }
  DUNLIN_HD unsigned char* numbers(int stage) const { return codes(stage) + kCodes; }
  DUNLIN_HD float* sums(int warp, int row) const { return WarpSums::Row(data, warp, row); }
};

template <int kGroups>
struct CodedGemmBlock : GemmBlock<PlainOperand<Bf16Format>, kGroups, false, CodedMemory<kGroups>> {
  using Base = GemmBlock<PlainOperand<Bf16Format>, kGroups, false, CodedMemory<kGroups>>;
  using Base::call;
  using Base::memory;
  using Base::place;
  using typename Base::Layout;

  // Copies the part of `bytes` per row that belongs to the block's columns. Pieces of rows past the last may hold
  // anything: their columns are not stored.
  DUNLIN_HD void LoadColumns(const unsigned char* first, int32_t bytes, unsigned char* shared) const {
    ForThreads([&](int thread) {
      for (int piece = thread; piece < kTileColumns / 16 * bytes; piece += kBlockThreads) {
        const int64_t column = place.first_column + piece * kPieceBytes / bytes;
        const bool present = column < call.columns;
        CopyPiece(shared + piece * kPieceBytes, present ? first + piece * kPieceBytes : call.coded.data, present);
      }
    });
  }

  // Commits a group of copies, an empty one after the last tile.
  DUNLIN_HD void LoadTile(int32_t tile, int32_t end) const {
    const int stage = tile % kGemmStages;
    if (tile < end) {
      LoadColumns(call.coded.codes(place.first_column, tile), call.coded.format.code_bytes(), memory.codes(stage));
      LoadColumns(call.coded.numbers(place.first_column, tile), call.coded.format.number_bytes, memory.numbers(stage));
      Base::template LoadRows<kGroups>(call.in, place.first_row, call.num_rows, tile, memory.inputs(stage));
    }
    CommitCopies();
  }

  // Each thread expands half a tile's row. Two threads share a row, so that eight adjacent ones write to eight
  // different pieces.
  DUNLIN_HD void ExpandTile(int32_t tile) const {
    static_assert(kBlockThreads == 2 * kTileColumns);
    const int stage = tile % kGemmStages;
    const CodedFormat format = call.coded.format;
    ForThreads([&](int thread) {
      const int row = thread / 2;
      const int half = thread % 2;
      const HalfTileValues values = Bf16OfHalfTile(format, memory.codes(stage) + row * format.code_bytes(),
                                                   memory.numbers(stage) + row * format.number_bytes, half, kHalfTile);
      DUNLIN_UNROLL
      for (int i = 0; i < 4; ++i) {
        struct alignas(16) Piece {
          uint32_t pairs[4];
        };
        *reinterpret_cast<Piece*>(memory.weights(stage) + Layout::Piece(row, half * 4 + i)) = {
            values.pairs[4 * i], values.pairs[4 * i + 1], values.pairs[4 * i + 2], values.pairs[4 * i + 3]};
      }
    });
    SyncBlock();
  }
};

template <int kGroups>
DUNLIN_HD void RunCodedGemm(const TileCall& call, const TilePlace& place, unsigned char* shared) {
  RunGemmBlock(CodedGemmBlock<kGroups>{{call, place, {shared}}});
}

}  // namespace dunlin::kernels::cuda
