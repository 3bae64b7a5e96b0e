// SPDX-License-Identifier: Apache-2.0
// Tiles in shared memory: 64 rows (of queries or keys) by 64 dims of 2-byte or 4-byte elements. A row is a sequence of
// 16-byte pieces, whose order is swizzled by the row, so that eight lanes reading the same piece of eight rows hit
// different banks.
#pragma once

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

inline constexpr int kTileRows = 64;  // of a tile of queries, keys or values
inline constexpr int kTileDims = 64;
inline constexpr int kPieceBytes = 16;

template <int kBytesEach>
struct TileLayout {
  static constexpr int kElementBytes = kBytesEach;
  static constexpr int kRowBytes = kTileDims * kElementBytes;
  static constexpr int kBytes = kTileRows * kRowBytes;
  static constexpr int kPieces = kRowBytes / kPieceBytes;  // of a row
  static constexpr int kPieceElements = kPieceBytes / kElementBytes;

  DUNLIN_HD static constexpr int Piece(int row, int piece) {
    return row * kRowBytes + (piece ^ (row & 7)) * kPieceBytes;
  }
  DUNLIN_HD static constexpr int Element(int row, int dim) {
    return Piece(row, dim / kPieceElements) + dim % kPieceElements * kElementBytes;
  }
};

// Register layout of a warp's product of 16 rows by 8 columns, of which a tile has 8 side by side: register 4 n + i of
// lane l is row Row(l, i), column 8 n + Column(l, i). Source: PTX ISA, mma.m16n8k16, "Accumulators (C or D)".
struct ProductSlot {
  DUNLIN_HD static constexpr int Row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  DUNLIN_HD static constexpr int Column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

}  // namespace dunlin::kernels::cuda
