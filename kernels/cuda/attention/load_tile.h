// SPDX-License-Identifier: Apache-2.0
// Filling tiles in shared memory: 64 rows by 64 dims of queries, keys or values, with zeros beyond the rows or dims.
// Keys and values that are 16-byte aligned and in the tile's own format are copied asynchronously, others element by
// element; either way a tile is complete after WaitForCopies and SyncBlock.
#pragma once

#include "kernels/cuda/attention/row_block.h"
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

// Widens eight 8-byte aligned E4M3 codes to 2-byte elements, exactly; null gives zeros.
template <typename Products>
DUNLIN_HD void WidenCodes(unsigned char* piece, const unsigned char* codes) {
  struct alignas(8) Codes {
    uint8_t bytes[8];
  };
  struct alignas(16) Elements {
    uint16_t bits[8];
  };
  const Codes in = codes == nullptr ? Codes{} : *reinterpret_cast<const Codes*>(codes);
  Elements out;
  DUNLIN_UNROLL
  for (int i = 0; i < 8; ++i) out.bits[i] = static_cast<uint16_t>(Products::FromFloat(FromE4M3(in.bytes[i])));
  *reinterpret_cast<Elements*>(piece) = out;
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

// Dims [first_dim, first_dim + 64) of the keys or values [first_key, first_key + 64), of which those before end_key
// exist. FP32 tiles of E4M3 codes include the scales.
template <typename Products>
DUNLIN_HD void LoadKeyTile(const KvRows& rows, int32_t first_key, int32_t end_key, int32_t first_dim,
                           unsigned char* tile) {
  using Layout = typename Products::Layout;
  const KvTensor& tensor = rows.tensor;
  if (tensor.whole_pieces && tensor.dtype == Products::kDType) {
    constexpr int kEach = kTileRows * Layout::kPieces / kBlockThreads;
    ForThreads([&](int thread) {
      DUNLIN_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const int row = (thread + i * kBlockThreads) / Layout::kPieces;
        const int piece = thread % Layout::kPieces;
        const int32_t dim = first_dim + piece * Layout::kPieceElements;
        const bool present = first_key + row < end_key && dim < tensor.dim;
        const unsigned char* data = present ? rows.Row(first_key + row) + dim * Layout::kElementBytes : tensor.data;
        CopyPiece(tile + Layout::Piece(row, piece), data, present);
      }
    });
    return;
  }
  if (tensor.whole_pieces && tensor.dtype == DType::kF8E4M3 && Layout::kElementBytes == 2) {
    ForPieces<Layout>([&](int row, int piece) {
      const int32_t dim = first_dim + piece * Layout::kPieceElements;
      const bool present = first_key + row < end_key && dim < tensor.dim;
      WidenCodes<Products>(tile + Layout::Piece(row, piece), present ? rows.Row(first_key + row) + dim : nullptr);
    });
    return;
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
