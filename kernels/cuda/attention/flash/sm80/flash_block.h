// SPDX-License-Identifier: Apache-2.0
// FLASH: a block's 64 rows walk through tiles of 64 keys with a running rescale; scores stay in registers. Keys are
// split at absolute multiples of 512: at the end of a split its partial result is merged into the row's total, or left
// to the merge kernel, with the same bits, so that decode and prefill of a row are equal. Tiles are fetched by
// asynchronous copies, one ahead where shared memory has room for two stages. Rows of more than 256 dims are wide: a
// block has 192 of their value columns, and the blocks of the others compute the same scores. Source: Dao 2023
// (FlashAttention-2), section 3; Flash-Decoding.
#pragma once

#include "kernels/cuda/attention/load_tile.h"
#include "kernels/cuda/attention/partial.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kSplitKeys = 512;
// Wide rows: of 512 dims, or of 576 whose last 512 are the values, which then are the tiles of the keys themselves.
inline constexpr int32_t kWideDims = 512;
inline constexpr int32_t kWideLatentDims = 576;

// Whether the block of a shape takes a selection of keys. For four slices in two stages it would be a few registers too
// many on sm_100; the one in one stage takes it.
constexpr bool FlashSelects(int slices, int stages) {
  return slices < 4 || stages == 1;
}

// A block's shared memory: kSlices tiles of 64 query dims, and per stage as many of keys and values. Wide: as many of
// queries and keys as these have, and kSlices of values.
template <int kSlices, int kStages, bool kWide = false>
struct FlashMemory {
  static constexpr int kTile = TileLayout<2>::kBytes;
  static constexpr int kScales = 2 * kTileRows * 4;  // per stage: the scales of E4M3 keys and values
  static constexpr int kTiles = kWide ? 2 * kWideDims / kTileDims + kSlices : (1 + 2 * kStages) * kSlices;
  static constexpr int kBytes = kTiles * kTile + kStages * kScales;
  static_assert(!kWide || (kStages == 1 && kTiles >= 2 * kWideLatentDims / kTileDims));

  unsigned char* data;
  int key_slices;   // of a row
  int first_value;  // wide: the tile of the block's first values
  DUNLIN_HD unsigned char* queries(int slice) const { return data + slice * kTile; }
  DUNLIN_HD unsigned char* keys(int stage, int slice) const {
    return data + ((kWide ? key_slices : (1 + 2 * stage) * kSlices) + slice) * kTile;
  }
  DUNLIN_HD unsigned char* values(int stage, int slice) const {
    return kWide ? data + (first_value + slice) * kTile : keys(stage, kSlices + slice);
  }
  DUNLIN_HD float* scales(int stage) const { return reinterpret_cast<float*>(data + kTiles * kTile + stage * kScales); }
  // For TakeOutNonFinite: the stage's scales, which have been read by then.
  static_assert(kScales == kTileDims * 8);
  DUNLIN_HD uint32_t* bad(int stage) const { return reinterpret_cast<uint32_t*>(scales(stage)); }
};

template <int kSlices>
struct FlashWarp {
  RowKeys keys;
  TileFrag scores;  // then weights
  RowFrag maximum;  // of the split so far
  RowFrag sum;      // the lane's part
  Frag<float, 32 * kSlices> out;
  RowFrag total_maximum;  // of the previous splits
  RowFrag total_sum;
};

template <typename Products, int kSlices, int kStages, bool kWide>
struct FlashBlock {
  using Warps = PerWarp<FlashWarp<kSlices>>;
  static constexpr bool kSelects = FlashSelects(kSlices, kStages);

  const AttentionCall& call;
  RowBlock rows;
  KvRows keys;
  KvRows values;
  FlashMemory<kSlices, kStages, kWide> memory;
  int32_t first_column;  // of the block's values; not 0 in wide rows alone

  DUNLIN_HD bool has_scales() const { return call.keys.dtype == DType::kF8E4M3; }
  DUNLIN_HD int key_slices() const { return kWide ? memory.key_slices : kSlices; }
  // The first dim of a slice of values.
  DUNLIN_HD int32_t ValueDim(int slice) const { return (kWide ? first_column : 0) + slice * kTileDims; }

  DUNLIN_HD void LoadAllQueries() const {
    DUNLIN_NO_UNROLL
    for (int slice = 0; slice < key_slices(); ++slice) {
      if (slice * kTileDims < call.keys.dim)
        LoadQueries<Products>(call, rows, slice * kTileDims, memory.queries(slice));
    }
  }

  DUNLIN_HD void LoadTile(int32_t first_key, int stage) const {
    constexpr bool kUnrolled = kSlices < 3;  // with more, the outputs leave too few registers
    const int32_t end = rows.sequence.kv_len;
    const int slices = AtLeast(key_slices(), kSlices);
    DUNLIN_NO_UNROLL
    for (int slice = 0; slice < slices; ++slice) {
      const int32_t dim = slice * kTileDims;
      if (dim < call.keys.dim) LoadKeyTile<Products, kUnrolled>(keys, first_key, end, dim, memory.keys(stage, slice));
      const bool has_values = kWide ? slice < kSlices && memory.first_value == 2 * memory.key_slices : true;
      if (has_values && ValueDim(slice) < call.values.dim) {
        LoadKeyTile<Products, kUnrolled>(values, first_key, end, ValueDim(slice), memory.values(stage, slice));
      }
    }
    CommitCopies();
    if (!has_scales()) return;
    ForThreads([&](int thread) {
      const int32_t key = first_key + thread % kTileRows;
      float scale = 0.0F;
      if (key < end) scale = thread < kTileRows ? keys.Scale(key) : values.Scale(key);
      memory.scales(stage)[thread] = scale;
    });
  }

  // Makes elements of a tile that arrived as E4M3 codes: half of the threads those of the keys, the others those of the
  // values.
  DUNLIN_HD void WidenTile(int stage) const {
    ForThreads([&](int thread) {
      const bool is_key = thread < kTileRows;
      const KvTensor& tensor = is_key ? call.keys : call.values;
      if (!ArrivesAsCodes(tensor)) return;
      const int32_t first = is_key ? 0 : ValueDim(0);
      const int slices = is_key ? key_slices() : kSlices;
      DUNLIN_NO_UNROLL
      for (int slice = 0; slice < slices && first + slice * kTileDims < tensor.dim; ++slice) {
        WidenRow<Products>(is_key ? memory.keys(stage, slice) : memory.values(stage, slice), thread % kTileRows, 1.0F);
      }
    });
    SyncBlock();
  }

  // Computes the tile's weights and rescales the outputs so far to its maximum.
  DUNLIN_HD void ScoreTile(int32_t first_key, int stage, Warps* warps) const {
    const float* scales = has_scales() ? memory.scales(stage) : nullptr;
    ForWarps([&](int warp) {
      if (!rows.has(warp)) return;
      FlashWarp<kSlices>& own = (*warps)[warp];
      own.scores.Fill(0.0F);
      DUNLIN_NO_UNROLL
      for (int slice = 0; slice * kTileDims < call.keys.dim; ++slice) {
        Products::AddScores(warp, memory.queries(slice), memory.keys(stage, slice), &own.scores);
      }
      ToScores<kSelects>(call, rows, warp, own.keys, first_key, scales, &own.scores);
      RowFrag maximum = own.maximum;
      RaiseToLargest(own.scores, &maximum);
      LargestOfQuads(&maximum);
      ForLanes([&](int lane) {
        DUNLIN_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float keep = Exp2(own.maximum.at(lane, half) - CenterOf(maximum.at(lane, half)));
          own.sum.at(lane, half) *= keep;
          DUNLIN_UNROLL
          for (int r = 0; r < 16 * kSlices; ++r) own.out.at(lane, r / 2 * 4 + half * 2 + r % 2) *= keep;
        }
      });
      own.maximum = maximum;
      ToWeights(own.maximum, &own.scores, &own.sum);
      if (scales != nullptr) ScaleWeights(scales + kTileRows, &own.scores);
    });
  }

  // A masked key has weight 0, whatever its scale.
  DUNLIN_HD static void ScaleWeights(const float* scales, TileFrag* weights) {
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int r = 0; r < 32; ++r) {
        float& weight = weights->at(lane, r);
        if (weight != 0.0F) weight = weight * scales[r / 4 * 8 + ProductSlot::Column(lane, r % 4)];
      }
    });
  }

  DUNLIN_HD void WeighTile(int32_t first_key, int stage, Warps* warps) const {
    const bool cut = !rows.SeesAll(first_key, kTileRows);
    DUNLIN_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      const int32_t dim = ValueDim(slice);
      if (dim >= call.values.dim) break;
      if (cut) {
        SyncBlock();  // the scales have been read, and the previous slice's removed values added back
        TakeOutNonFinite<Products>(memory.values(stage, slice), memory.bad(stage));
      }
      ForWarps([&](int warp) {
        if (!rows.has(warp)) return;
        FlashWarp<kSlices>& own = (*warps)[warp];
        Products::AddValues(warp, own.scores, memory.values(stage, slice), nullptr, &own.out, slice);
        if (cut) AddNonFinite(values, own.keys, first_key, dim, memory.bad(stage), &own.out, slice);
      });
    }
  }

  DUNLIN_HD static void BeginSplit(Warps* warps) {
    ForWarps([&](int warp) {
      FlashWarp<kSlices>& own = (*warps)[warp];
      own.maximum.Fill(-INFINITY);
      own.sum.Fill(0.0F);
      own.out.Fill(0.0F);
    });
  }

  // Merges the split into the rows' totals: totals + OutputAt(row) + dim, each element owned by one lane. out, maximum
  // and sum hold the merged state afterwards; it is stored unless the split is the last.
  DUNLIN_HD void EndSplit(float* totals, bool first, bool last, Warps* warps) const {
    ForWarps([&](int warp) {
      FlashWarp<kSlices>& own = (*warps)[warp];
      SumQuads(&own.sum);
      if (first && last) return;
      ForLanes([&](int lane) {
        DUNLIN_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int32_t row = RowOf(warp, lane, 2 * half);
          if (row >= rows.num_rows) continue;
          const MergeFactors merge = first
                                         ? MergeFactors{own.maximum.at(lane, half), own.sum.at(lane, half), 0.0F, 1.0F}
                                         : MergeOf(own.total_maximum.at(lane, half), own.total_sum.at(lane, half),
                                                   own.maximum.at(lane, half), own.sum.at(lane, half));
          float* total = totals + OutputAt(call, rows, row);
          DUNLIN_UNROLL
          for (int r = 0; r < 16 * kSlices; ++r) {
            const int32_t dim = ValueDim(0) + r / 2 * 8 + ProductSlot::Column(lane, r % 2);
            if (dim >= call.values.dim) continue;
            float& value = own.out.at(lane, r / 2 * 4 + half * 2 + r % 2);
            if (!first) value = merge(total[dim], value);
            if (!last) total[dim] = value;
          }
          own.maximum.at(lane, half) = own.total_maximum.at(lane, half) = merge.maximum;
          own.sum.at(lane, half) = own.total_sum.at(lane, half) = merge.sum;
        }
      });
    });
  }
};

// Tiles [first, end) of a block.
struct TileRange {
  int32_t first;
  int32_t end;
};
DUNLIN_HD inline TileRange TilesOf(const RowBlock& rows, bool in_parts, int32_t part) {
  constexpr int32_t kSplitTiles = kSplitKeys / kTileRows;
  TileRange range{rows.key_start / kTileRows, (rows.key_limit + kTileRows - 1) / kTileRows};
  if (!in_parts) return range;
  return {AtLeast(range.first, part * kSplitTiles), AtMost(range.end, (part + 1) * kSplitTiles)};
}

// Where a wide block's tiles lie: those of values in keys are not loaded again.
template <int kSlices, int kStages, bool kWide>
DUNLIN_HD FlashMemory<kSlices, kStages, kWide> FlashMemoryOf(const AttentionCall& call, int32_t first_column,
                                                             unsigned char* shared) {
  if constexpr (kWide) {
    const int key_slices = (call.keys.dim + kTileDims - 1) / kTileDims;
    const int64_t offset = call.values.data - call.keys.data;  // bytes
    constexpr int kSliceBytes = kTileDims * 2;
    const bool in_keys = offset >= 0 && offset < call.keys.row_bytes && offset % kSliceBytes == 0;
    const int slice = in_keys ? static_cast<int>(offset / kSliceBytes) + first_column / kTileDims : key_slices;
    return {shared, key_slices, key_slices + slice};
  } else {
    return {shared, kSlices, 0};
  }
}

// part: the block's only split where the call has a part store. totals: FP32, laid out as the call's outputs; needed
// where a row's keys span several splits and there is no store. first_column: of the values; 0 but in wide rows.
template <typename Products, int kSlices, int kStages, bool kWide>
DUNLIN_HD void RunFlash(const AttentionCall& call, const PartialStore& parts, float* totals, const RowBlock& rows,
                        int32_t first_column, int32_t part, unsigned char* shared) {
  constexpr int32_t kSplitTiles = kSplitKeys / kTileRows;
  const bool in_parts = parts.data != nullptr;
  const TileRange tiles = TilesOf(rows, in_parts, part);
  if (in_parts && tiles.first >= tiles.end) return;
  const FlashBlock<Products, kSlices, kStages, kWide> block{
      call,
      rows,
      RowsOf(call, call.keys, rows.sequence, rows.kv_head),
      RowsOf(call, call.values, rows.sequence, rows.kv_head),
      FlashMemoryOf<kSlices, kStages, kWide>(call, first_column, shared),
      first_column};
  PerWarp<FlashWarp<kSlices>> warps;
  ForWarps([&](int warp) { FindKeys(rows, warp, &warps[warp].keys); });
  block.BeginSplit(&warps);
  block.LoadAllQueries();
  bool first_split = true;
  // With two stages the first iteration only fetches the first tile.
  for (int32_t tile = tiles.first - (kStages - 1); tile < tiles.end; ++tile) {
    const int stage = (tile - tiles.first + kStages) % kStages;
    if constexpr (kStages == 1) {
      SyncBlock();  // the previous tile has been read
      block.LoadTile(tile * kTileRows, 0);
    }
    WaitForCopies<0>();
    SyncBlock();  // the tile has arrived, and the previous one has been read
    if constexpr (kStages == 2) {
      if (tile + 1 < tiles.end) block.LoadTile((tile + 1) * kTileRows, 1 - stage);
      if (tile < tiles.first) continue;
    }
    if (block.has_scales()) block.WidenTile(stage);
    block.ScoreTile(tile * kTileRows, stage, &warps);
    block.WeighTile(tile * kTileRows, stage, &warps);
    const bool last = tile + 1 == tiles.end;
    if (!last && (tile + 1) % kSplitTiles != 0) continue;
    block.EndSplit(totals, first_split, last, &warps);
    if (!last) block.BeginSplit(&warps);
    first_split = false;
  }
  ForWarps([&](int warp) {
    FlashWarp<kSlices>& own = warps[warp];
    if (!in_parts) AddSinks(call, rows, warp, own.maximum, &own.sum);
    DUNLIN_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      const int32_t dim = block.ValueDim(slice);
      if (dim >= call.values.dim) break;
      if (in_parts) {
        StorePart(parts, parts.Part(parts.Task(rows, call.num_kv_heads), part), rows, warp, dim, slice, own.maximum,
                  own.sum, own.out);
      } else {
        StoreOutputs(call, rows, warp, dim, slice, own.sum, own.out);
      }
    }
  });
}

}  // namespace dunlin::kernels::cuda
