// SPDX-License-Identifier: Apache-2.0
// One launch of the tile GEMM, out = in W^T: operands and outputs. A block computes 64 outputs of up to 64 rows over
// one slice of K; a second kernel merges slices in ascending order. A row's sum depends only on the division of K,
// never on the other rows. Pointers are device memory.
#pragma once

#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/block/tile_layout.h"
#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/gemm/paired_outputs.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {

inline constexpr int kGroupRows = 16;               // per tensor core product
inline constexpr int kTileColumns = kTileRows;      // outputs per block
inline constexpr int kTileBytes = 8 * kPieceBytes;  // of a row, per tile: 64 two-byte elements or 128 E4M3 codes

// How sums become outputs: sum * scales + bias + residual; or, with `next`, activation(sum + bias), rounded.
struct TileStore {
  const float* weight_scales;  // [columns], or null; with in_scales
  const float* in_scales;      // [num_rows]
  const float* bias;           // [columns] or null
  const float* residual;       // [num_rows, columns], rows out_stride apart, or null; may be out
  float* out;
  int64_t out_stride;  // floats
  int64_t columns;
  bool vector;  // rows of out and residual are 16-byte aligned
  // The sums through tanh-GELU, in place of out and residual, or null: rows of next_row_bytes; columns is then a
  // multiple of 16.
  unsigned char* next;
  int64_t next_row_bytes;
  Precision next_precision;  // kFp16 or kBf16
};

struct TileCall {
  const unsigned char* weight;  // [columns] rows of row_bytes; null with `coded`
  CodedView coded;              // of integer codes, or data null
  const unsigned char* in;      // [num_rows] rows of row_bytes
  int64_t row_bytes;            // a multiple of 16; padding holds zeros
  int64_t columns;
  int32_t num_rows;
  // Scales per 128 codes: [tiles, stride]. Null: none, or TileStore has them.
  const float* weight_scales;
  int64_t weight_scale_stride;
  const float* in_scales;
  int64_t in_scale_stride;
  int32_t tiles;  // of K
  int32_t tiles_per_slice;
  int32_t slices;
  float* parts;          // [slices, num_rows, parts_stride]; null: one slice, written straight to the outputs
  int64_t parts_stride;  // floats, a multiple of 4, >= columns
  TileStore store;
  int32_t multiprocessors = 0;  // of the device, for kernels whose blocks are persistent
  int32_t tile_shape = 0;       // of kernels with several: 0: by the call's shape, else 1, 2, ..
  // No kernel that may still run writes the weight: on 9.0 a launch of few rows begins before the preceding kernel has
  // ended, and fetches weights until then.
  bool overlaps = false;
  // In place of FP32 rows, of kernels whose row in kernel_table.cc has them.
  PairedOutputs paired = {};
};

// A block's share of a call.
struct TilePlace {
  int32_t slice;
  int32_t first_row;
  int64_t first_column;
};

// Blocks that read the same weights are adjacent.
DUNLIN_HD inline TilePlace TilePlaceOf(const TileCall& call, int32_t rows_per_block, int64_t block) {
  const int64_t row_blocks = (call.num_rows + rows_per_block - 1) / rows_per_block;
  const int64_t column_tiles = (call.columns + kTileColumns - 1) / kTileColumns;
  const int64_t tile = block / row_blocks;
  return {static_cast<int32_t>(tile / column_tiles), static_cast<int32_t>(block % row_blocks) * rows_per_block,
          tile % column_tiles * kTileColumns};
}

DUNLIN_HD inline void StoreActivated(const TileStore& store, int64_t row, int64_t column, const Float4& sums) {
  Float4 values = sums;
  DUNLIN_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float value = values.values[i] + (store.bias == nullptr ? 0.0F : store.bias[column + i]);
    values.values[i] = GeluTanh(value);
  }
  StoreAs(store.next_precision, store.next + row * store.next_row_bytes, column, 4, values);
}

// Stores four sums of a row from `column`, a multiple of 4, on.
DUNLIN_HD inline void StoreSums(const TileStore& store, int64_t row, int64_t column, const Float4& sums) {
  if (store.next != nullptr) return StoreActivated(store, row, column, sums);
  const bool scaled = store.weight_scales != nullptr;
  const int64_t at = row * store.out_stride + column;
  Float4 values = sums;
  DUNLIN_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (column + i >= store.columns) break;
    if (scaled) values.values[i] *= store.in_scales[row] * store.weight_scales[column + i];
    if (store.bias != nullptr) values.values[i] += store.bias[column + i];
    if (store.residual != nullptr) values.values[i] += store.residual[at + i];
  }
  if (store.vector && column + 4 <= store.columns) {
    *reinterpret_cast<Float4*>(store.out + at) = values;
    return;
  }
  DUNLIN_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (column + i < store.columns) store.out[at + i] = values.values[i];
  }
}

// Merges the slices of four outputs in ascending order.
DUNLIN_HD inline void MergeSlices(const TileCall& call, int64_t row, int64_t column) {
  const int64_t slice_stride = call.num_rows * call.parts_stride;
  const float* part = call.parts + row * call.parts_stride + column;
  Float4 sums = *reinterpret_cast<const Float4*>(part);
  for (int32_t slice = 1; slice < call.slices; ++slice) {
    const Float4 next = *reinterpret_cast<const Float4*>(part + slice * slice_stride);
    for (int i = 0; i < 4; ++i) sums.values[i] += next.values[i];
  }
  StoreSums(call.store, row, column, sums);
}

}  // namespace dunlin::kernels::cuda
