// SPDX-License-Identifier: Apache-2.0
// A block's products over one tile of keys, from global memory to registers: shared by EFFICIENT and MATH. Query dims
// and value columns are processed 64 at a time, so any number of either works.
#pragma once

#include "kernels/cuda/attention/load_tile.h"

namespace dunlin::kernels::cuda {

// A block's shared memory. Keys and values share one tile.
template <typename Products>
struct TileMemory {
  static constexpr int kTile = Products::Layout::kBytes;
  static constexpr int kWeights = kBlockWarps * Products::kWeightBytes;
  static constexpr int kBytes = 2 * kTile + kWeights + kTileDims * 8;

  unsigned char* data;
  DUNLIN_HD unsigned char* queries() const { return data; }
  DUNLIN_HD unsigned char* keys() const { return data + kTile; }
  DUNLIN_HD unsigned char* weights() const { return data + 2 * kTile; }
  DUNLIN_HD uint32_t* bad() const { return reinterpret_cast<uint32_t*>(data + 2 * kTile + kWeights); }
};

template <typename Products>
struct TileWork {
  const AttentionCall& call;
  RowBlock rows;
  KvRows keys;
  KvRows values;
  TileMemory<Products> memory;

  // Fetches 64 dims of the keys or values of a tile and waits for them.
  DUNLIN_HD void FetchTile(const KvRows& from, int32_t first_key, int32_t first_dim) const {
    const int32_t end_key = rows.sequence.kv_len;
    LoadKeyTile<Products>(from, first_key, end_key, first_dim, memory.keys());
    CommitCopies();
    WaitForCopies<0>();
    SyncBlock();
    if (!ArrivesAsCodes(from.tensor)) return;
    ForThreads([&](int thread) {
      if (thread >= kTileRows) return;
      const int32_t key = first_key + thread;
      WidenRow<Products>(memory.keys(), thread, key < end_key ? from.Scale(key) : 0.0F);
    });
    SyncBlock();
  }

  DUNLIN_HD int32_t query_tiles() const { return (call.keys.dim + kTileDims - 1) / kTileDims; }
  // Products of the rows and the tile's keys. queries_there: an earlier call left the only tile of queries in memory.
  // scores(warp): the warp's TileFrag&.
  template <typename Scores>
  DUNLIN_HD void ScoreTile(int32_t first_key, bool queries_there, const Scores& scores) const {
    ForWarps([&](int warp) { scores(warp).Fill(0.0F); });
    DUNLIN_NO_UNROLL
    for (int32_t dims = 0; dims < query_tiles(); ++dims) {
      SyncBlock();  // the previous tiles have been read
      if (!queries_there) LoadQueries<Products>(call, rows, dims * kTileDims, memory.queries());
      FetchTile(keys, first_key, dims * kTileDims);
      ForWarps([&](int warp) {
        if (rows.has(warp)) Products::AddScores(warp, memory.queries(), memory.keys(), &scores(warp));
      });
    }
  }

  // Adds weights times 64 columns of the tile's values. body(warp, weigh) calls weigh(weights, keys, &out) with the
  // warp's state.
  template <typename Body>
  DUNLIN_HD void WeighTile(int32_t first_key, int32_t first_dim, const Body& body) const {
    SyncBlock();
    FetchTile(values, first_key, first_dim);
    const bool cut = !rows.SeesAll(first_key, kTileRows);
    if (cut) TakeOutNonFinite<Products>(memory.keys(), memory.bad());
    ForWarps([&](int warp) {
      if (!rows.has(warp)) return;
      body(warp, [&](const TileFrag& weights, const RowKeys& seen, TileFrag* out) {
        Products::AddValues(warp, weights, memory.keys(), memory.weights(), out, 0);
        if (cut) AddNonFinite(values, seen, first_key, first_dim, memory.bad(), out, 0);
      });
    });
  }
};

template <typename Products>
DUNLIN_HD TileWork<Products> WorkOf(const AttentionCall& call, const RowBlock& rows, unsigned char* shared) {
  return {call,
          rows,
          RowsOf(call, call.keys, rows.sequence, rows.kv_head),
          RowsOf(call, call.values, rows.sequence, rows.kv_head),
          {shared}};
}

}  // namespace dunlin::kernels::cuda
