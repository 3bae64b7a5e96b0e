// SPDX-License-Identifier: Apache-2.0
// Filling tiles in shared memory: 64 rows by 64 dims of queries, keys or values, with zeros beyond the rows or dims.
// Keys and values that are 16-byte aligned and in the tile's own format or in E4M3 are copied asynchronously, others
// element by element. A tile has arrived after WaitForCopies and SyncBlock; codes then become elements (WidenRow).
#pragma once

#include "kernels/cuda/attention/row_fragments.h"
#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/block/tile_layout.h"

namespace dunlin::kernels::cuda {

// Calls fill(row, piece) for every piece of a tile, divided among threads; adjacent pieces of a row go to adjacent
// lanes.
template <typename Layout, typename Fill>
DUNLIN_HD void ForPieces(const Fill& fill) {
  constexpr int kPieces = kTileRows * Layout::kPieces;
  ForThreads([&](int thread) {
    DUNLIN_NO_UNROLL
    for (int index = thread; index < kPieces; index += kBlockThreads) {
      fill(index / Layout::kPieces, index % Layout::kPieces);
    }
  });
}

// One piece of a tile from elements of any dtype, multiplied by a factor.
template <typename Products>
DUNLIN_HD void FillPiece(unsigned char* piece, DType dtype, const unsigned char* row, int32_t first, int32_t dim,
                         float factor) {
  using Element = typename Products::Element;
  auto* out = reinterpret_cast<Element*>(piece);
  DUNLIN_NO_UNROLL
  for (int i = 0; i < Products::Layout::kPieceElements; ++i) {
    const bool present = row != nullptr && first + i < dim;
    out[i] = Products::FromFloat(present ? LoadElement(dtype, row, first + i) * factor : 0.0F);
  }
}

// Whether LoadKeyTile copies E4M3 codes, asynchronously, for WidenRow to make elements of.
DUNLIN_HD inline bool ArrivesAsCodes(const KvTensor& tensor) {
  return tensor.whole_pieces && tensor.dtype == DType::kF8E4M3;
}

// 64 codes take the last 4 pieces of a row.
constexpr int kCodePieces = kTileDims / kPieceBytes;
template <typename Products>
inline constexpr int kFirstCodePiece = Products::Layout::kPieces - kCodePieces;

// Makes elements of a row's 64 codes, in place: a piece of codes is read before its elements are written, and the
// pieces that these overwrite have been read. Called by one thread per row. Exact for a factor of 1.
template <typename Products>
DUNLIN_HD void WidenRow(unsigned char* tile, int row, float factor) {
  using Layout = typename Products::Layout;
  struct alignas(16) Codes {
    uint8_t bytes[kPieceBytes];
  };
  struct alignas(16) Elements {
    typename Products::Element values[Layout::kPieceElements];
  };
  constexpr int kEach = kPieceBytes / Layout::kPieceElements;  // pieces of elements per piece of codes
  DUNLIN_NO_UNROLL
  for (int from = 0; from < kCodePieces; ++from) {
    const Codes codes = *reinterpret_cast<const Codes*>(tile + Layout::Piece(row, kFirstCodePiece<Products> + from));
    DUNLIN_UNROLL
    for (int to = 0; to < kEach; ++to) {
      Elements out;
      DUNLIN_UNROLL
      for (int i = 0; i < Layout::kPieceElements; ++i) {
        const float value = FromE4M3(codes.bytes[to * Layout::kPieceElements + i]);
        out.values[i] = Products::FromFloat(Products::kDType == DType::kF32 ? value * factor : value);
      }
      *reinterpret_cast<Elements*>(tile + Layout::Piece(row, from * kEach + to)) = out;
    }
  }
}

// Dims [first_dim, first_dim + 64) of the block's queries, rounded to the tile's format.
template <typename Products>
DUNLIN_HD void LoadQueries(const AttentionCall& call, const RowBlock& block, int32_t first_dim, unsigned char* tile) {
  using Layout = typename Products::Layout;
  const RowTensor<const unsigned char>& query = call.query;
  ForPieces<Layout>([&](int row, int piece) {
    const unsigned char* data = nullptr;
    if (row < block.num_rows) {
      const int64_t start =
          block.sequence.query_start + block.Token(row) * query.token_stride + block.Head(row) * query.head_stride;
      data = query.data + start * query.element_bytes;
    }
    FillPiece<Products>(tile + Layout::Piece(row, piece), query.dtype, data, first_dim + piece * Layout::kPieceElements,
                        call.keys.dim, 1.0F);
  });
}

// Copies the pieces of 64 rows from global memory, asynchronously: kCount pieces of kElements each per row, from piece
// kFirst of the tile's rows on.
template <typename Layout, int kFirst, int kCount, int kElements, bool kUnrolled>
DUNLIN_HD void CopyRowPieces(const KvRows& rows, int32_t first_key, int32_t end_key, int32_t first_dim,
                             unsigned char* tile) {
  const KvTensor& tensor = rows.tensor;
  const auto copy = [&](int index) {
    const int row = index / kCount;
    const int piece = index % kCount;
    const int32_t dim = first_dim + piece * kElements;
    const bool present = first_key + row < end_key && dim < tensor.dim;
    const unsigned char* data = present ? rows.Row(first_key + row) + dim * (kPieceBytes / kElements) : tensor.data;
    CopyPiece(tile + Layout::Piece(row, kFirst + piece), data, present);
  };
  constexpr int kEach = kTileRows * kCount / kBlockThreads;
  ForThreads([&](int thread) {
    if constexpr (kUnrolled) {
      DUNLIN_UNROLL
      for (int i = 0; i < kEach; ++i) copy(thread + i * kBlockThreads);
    } else {
      DUNLIN_NO_UNROLL
      for (int i = 0; i < kEach; ++i) copy(thread + i * kBlockThreads);
    }
  });
}

// Dims [first_dim, first_dim + 64) of the keys or values [first_key, first_key + 64), of which those before end_key
// exist. Where ArrivesAsCodes, WidenRow completes the tile once it has arrived. FP32 tiles of E4M3 codes include the
// scales, whichever way they take. kUnrolled: false saves registers.
template <typename Products, bool kUnrolled = true>
DUNLIN_HD void LoadKeyTile(const KvRows& rows, int32_t first_key, int32_t end_key, int32_t first_dim,
                           unsigned char* tile) {
  using Layout = typename Products::Layout;
  const KvTensor& tensor = rows.tensor;
  if (tensor.whole_pieces && tensor.dtype == Products::kDType) {
    return CopyRowPieces<Layout, 0, Layout::kPieces, Layout::kPieceElements, kUnrolled>(rows, first_key, end_key,
                                                                                        first_dim, tile);
  }
  if (ArrivesAsCodes(tensor)) {
    return CopyRowPieces<Layout, kFirstCodePiece<Products>, kCodePieces, kPieceBytes, false>(rows, first_key, end_key,
                                                                                             first_dim, tile);
  }
  const bool scaled = tensor.dtype == DType::kF8E4M3 && Products::kDType == DType::kF32;
  ForPieces<Layout>([&](int row, int piece) {
    const int32_t key = first_key + row;
    const bool present = key < end_key;
    FillPiece<Products>(tile + Layout::Piece(row, piece), tensor.dtype, present ? rows.Row(key) : nullptr,
                        first_dim + piece * Layout::kPieceElements, tensor.dim,
                        present && scaled ? rows.Scale(key) : 1.0F);
  });
}

// A non-finite value must not be multiplied by the weight 0 of a row that does not see its key: the product would be
// NaN. In a tile that some row sees only in part, such values become 0 and are recorded here; AddNonFinite adds them to
// the rows that see them. bad: [64 dims][2], one bit per key. Called between SyncBlocks, once the tile is complete.
template <typename Products>
DUNLIN_HD void TakeOutNonFinite(unsigned char* tile, uint32_t* bad) {
  using Layout = typename Products::Layout;
  using Element = typename Products::Element;
  ForThreads([&](int thread) { bad[thread] = 0; });
  SyncBlock();
  ForPieces<Layout>([&](int row, int piece) {
    auto* elements = reinterpret_cast<Element*>(tile + Layout::Piece(row, piece));
    DUNLIN_NO_UNROLL
    for (int i = 0; i < Layout::kPieceElements; ++i) {
      if (Products::IsFinite(elements[i])) continue;
      elements[i] = Products::FromFloat(0.0F);
      uint32_t* word = bad + (piece * Layout::kPieceElements + i) * 2 + row / 32;
#ifdef __CUDA_ARCH__
      atomicOr(word, 1U << (row % 32));
#else
      *word |= 1U << (row % 32);
#endif
    }
  });
  SyncBlock();
}

// Adds to each row's outputs the removed values whose keys the row sees.
template <int kCount>
DUNLIN_HD void AddNonFinite(const KvRows& rows, const RowKeys& keys, int32_t first_key, int32_t first_dim,
                            const uint32_t* bad, Frag<float, kCount>* out, int slice) {
  ForLanes([&](int lane) {
    DUNLIN_NO_UNROLL
    for (int r = 0; r < 32; ++r) {
      const int column = r / 4 * 8 + ProductSlot::Column(lane, r % 4);
      if ((bad[column * 2] | bad[column * 2 + 1]) == 0) continue;
      const bool upper = r % 4 < 2;
      const int32_t start = AtLeast(upper ? keys.start.at(lane, 0) : keys.start.at(lane, 1), first_key);
      const int32_t limit = AtMost(upper ? keys.limit.at(lane, 0) : keys.limit.at(lane, 1), first_key + kTileRows);
      float added = 0.0F;
      DUNLIN_NO_UNROLL
      for (int32_t key = start; key < limit; ++key) {
        const int bit = key - first_key;
        if ((bad[column * 2 + bit / 32] >> (bit % 32) & 1U) == 0) continue;
        added += LoadElement(rows.tensor.dtype, rows.Row(key), first_dim + column);
      }
      DUNLIN_UNROLL
      for (int i = 0; i < 32; ++i) {
        float& value = out->at(lane, slice * 32 + i);
        value = i == r ? value + added : value;
      }
    }
  });
}

}  // namespace dunlin::kernels::cuda
