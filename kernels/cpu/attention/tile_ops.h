// SPDX-License-Identifier: Apache-2.0
// The tile primitives that the three algorithms are made of: one const table per code variant and KV dtype.
// The algorithms (flash.cc, efficient.cc, math.cc) are written once, over a table; vector code stays in its own files.
//
// Bit contract: every result of a row is one fixed chain (scores over d, values over keys, both ascending) that stops
// at the row's own number of keys, so it depends neither on the other rows of a call nor on keys the row does not see:
// what lies in a slot at or past that number (NaN, infinity, another row's key) is never part of it.
// Thread rule: pure functions on the memory they are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::kernels::cpu {

inline constexpr int kTileKeys = 128;   // keys of a tile; a tile starts at an absolute multiple of it
inline constexpr int kBlockRows = 144;  // rows of a block: 12 groups of the 12 that a vector kernel holds in registers
inline constexpr int kMaxRows = 3 * kBlockRows;  // of FLASH's largest blocks (TileOps::block_bytes)
inline constexpr int kLanes = 16;                // partial sums of a row's softmax denominator
inline constexpr int kFewRows = 8;               // that read a page line by line, at the pace of memory: decode
inline constexpr int kMaxTilePages = 16;         // FP32 has 8 tokens a page

// Scratch for a part of a tile's keys or values, widened: 32 keys as floats or 64 as BF16 pairs with a scale each, 32
// or 64 dimensions of values. dim: that of the keys.
constexpr int64_t WidePanelFloats(int32_t dim) {
  const int64_t padded = (int64_t{dim} + 1) / 2 * 2;
  return 32 * (padded > kTileKeys ? padded : kTileKeys) + 64;
}

// Packs one query row, multiplied by sign: as FP32, rounded to BF16 or not, or as BF16 pairs where the table reads
// them.
struct QueryRowArgs {
  const void* in;  // [head_dim]
  DType in_dtype;  // kF32, kF16 or kBF16
  int head_dim;
  float sign;  // -1, 0 or 1; 0 gives zeros
  bool round_to_bf16;
  std::byte* packed;  // out, head_dim padded to 16 floats or BF16, all written (zeros in the padding)
};

// Writes one output row: o / sum, rounded to its dtype; zeros when sum is 0.
struct OutputRowArgs {
  const float* o;  // [head_dim padded to 16], 64-byte aligned
  float sum;
  int head_dim;
  DType out_dtype;  // kF32, kF16 or kBF16
  void* out;        // [head_dim]
};

// Kernels prefetch the blocks of `next` while they compute a tile: few rows a line of next[i] for each line that they
// read of block i, many rows a share between their row groups. The distance is one tile for every table: 32 KB of BF16
// keys and values at head_dim 64. Zen 5, decode of BF16 pages by FLASH, against half a tile: on one thread groups of 4
// heads take 5% to 9% less time, of 8 heads 24% less, of 1 head 1% less to 6% more; on two threads groups of 8 heads
// take 6% to 10% less, the others the same within 3%.
//
// s[r][j] = q[r] . k[j] for the keys of the tile, unscaled. Columns of unseen keys hold anything.
struct ScoreArgs {
  const std::byte* q;  // [rows] packed query rows (query_block.h), q_stride bytes apart, padded to even with zeros
  int64_t q_stride;
  int rows;  // 1..kMaxRows
  int head_dim;
  const int32_t* valid;          // [rows] 1..kTileKeys, not decreasing: keys that a row sees; or null for all
  const std::byte* const* keys;  // blocks of the tile, one a page (call.h, ListTile)
  const std::byte* const* next;  // as many, prefetched meanwhile; `keys` itself for none
  float* wide;                   // scratch of WidePanelFloats, 64-byte aligned; null from MATH
  float* s;                      // [rows][kTileKeys], s_stride floats apart, 64-byte aligned
  int64_t s_stride;
};

// Adjusts a row's scores before the softmax (Gemma 2's softcap, ALiBi, a bias, a mask), in this order:
// s = s scale, s = softcap tanh(s / softcap), s += slope (j + distance), s += bias[j], s = -inf where mask[j] is 0.
struct AdjustRowArgs {
  float* s;             // [count], in and out
  int count;            // >= 0
  float scale;          // of the softmax
  float softcap;        // 0: none
  float slope;          // 0: none
  int32_t distance;     // position of column 0 less the query's
  const void* bias;     // [count], or null
  DType bias_dtype;     // kF32, kF16 or kBF16
  const uint8_t* mask;  // [count] 0: not seen; or null
};

// FLASH: one tile's step of the running softmax. For a row with n = valid[r] >= 1 keys in the tile:
// m' = max(m, max s[0..n)), alpha = 2^((m - m') scale), p = 2^((s - m') scale), sum = sum * alpha + p lane by lane, p
// without its scale.
struct RunningSoftmaxArgs {
  const float* s;
  int64_t s_stride;
  int rows;
  const int32_t* valid;  // [rows] 1..kTileKeys
  float scale;           // > 0, softmax scale * log2(e)
  float* row_max;        // [rows] m, unscaled; -inf at first
  float* lane_sum;       // [rows][kLanes]; 0 at first
  float* alpha;          // [rows] out
  void* p;           // [rows][kTileKeys] out, of the table's P type, zeros after the row's keys up to a multiple of 16;
                     // may be s
  int64_t p_stride;  // elements
  const float* p_scale = nullptr;  // [kTileKeys] what each P is multiplied by before it is rounded (TileOps::scales_p)
};

// EFFICIENT: a chunk's softmax alone. m = max s[0..n), p = 2^((s - m) scale), sum = of p without its scale.
struct ChunkSoftmaxArgs {
  const float* s;
  int64_t s_stride;
  int rows;
  const int32_t* valid;  // [rows] >= 1, any count
  float scale;
  float* row_max;  // [rows] out
  float* row_sum;  // [rows] out
  void* p;         // as above
  int64_t p_stride;
  const float* p_scale = nullptr;  // as above, as many as valid
};

// MATH: the whole row's softmax in place, FP32: s[j] = 2^((s[j] - m) scale) / sum.
struct FullSoftmaxArgs {
  float* s;
  int64_t s_stride;
  int rows;
  const int32_t* valid;  // [rows] >= 1
  float scale;
};

// o[r] = o[r] * alpha[r] + sum over begin[r] <= j < valid[r] of p[r][j] v[j]. P of the keys before begin[r] is 0.
struct ValueArgs {
  const void* p;     // [rows][kTileKeys]
  int64_t p_stride;  // elements
  int rows;
  const int32_t* valid;  // [rows] 1..kTileKeys, not decreasing
  const int32_t* begin;  // [rows] < valid, not decreasing; or null for 0
  const float* alpha;    // [rows], or null for 1
  int head_dim;
  const std::byte* const* values;  // as ScoreArgs
  const std::byte* const* next;
  float* wide;  // as ScoreArgs
  float* o;     // [rows][head_dim padded to 16], o_stride floats apart, 64-byte aligned
  int64_t o_stride;
};

// EFFICIENT: folds a chunk's (max, sum, o) into a row's, always in the same arithmetic.
struct MergeArgs {
  int rows;
  int64_t o_stride;  // floats of a row of o, a multiple of 16; all are merged
  float scale;
  float* row_max;
  float* row_sum;
  float* o;
  const float* chunk_max;
  const float* chunk_sum;
  const float* chunk_o;
};

struct TileOps {
  bool bf16_pairs;  // packed queries and P (of running_softmax, chunk_softmax, values) are BF16 pairs, else FP32
  bool scales_p;  // the softmax multiplies P by the values' FP32 scales (E4M3), not `values` the codes; the sums do not
  int score_rows;       // FLASH makes S of so many rows at a time: kMaxRows, or, with bf16_pairs, a few that L1 holds
  int64_t block_bytes;  // queries, S and O of FLASH's larger blocks: what an L2 cache holds; 0: all have kBlockRows
  void (*load_query)(const QueryRowArgs&);
  void (*store_output)(const OutputRowArgs&);
  void (*scores)(const ScoreArgs&);
  void (*adjust_row)(const AdjustRowArgs&);
  void (*running_softmax)(const RunningSoftmaxArgs&);
  void (*chunk_softmax)(const ChunkSoftmaxArgs&);
  void (*full_softmax)(const FullSoftmaxArgs&);  // MATH's; null where MATH takes another table (SelectTileOps)
  void (*values)(const ValueArgs&);
  void (*values_f32)(const ValueArgs&);  // MATH's: P in FP32 whatever the KV dtype; null as above
  void (*merge)(const MergeArgs&);
};

extern const TileOps kPortableF32Tiles, kPortableF16Tiles, kPortableBf16Tiles, kPortableF8Tiles;
extern const TileOps kAvx2F32Tiles, kAvx2F16Tiles, kAvx2Bf16Tiles, kAvx2F8Tiles;
extern const TileOps kAvx512F32Tiles, kAvx512F16Tiles, kAvx512F8Tiles;
extern const TileOps kAvx512Bf16Tiles;     // widened to FP32, FMA: Intel's BF16 dot product does half as much
extern const TileOps kAvx512Bf16DotTiles;  // the BF16 dot product: twice the FMA's rate on AMD
extern const TileOps kAvx512F8DotTiles;    // of codes widened to BF16, where TakesF8DotTiles
// The same, prefetching into L2 (vector/prefetch.h).
extern const TileOps kAvx512F32L2Tiles, kAvx512F16L2Tiles, kAvx512Bf16DotL2Tiles, kAvx512F8DotL2Tiles;
extern const TileOps kNeonF32Tiles, kNeonF16Tiles, kNeonBf16Tiles, kNeonF8Tiles;
extern const TileOps kAmxBf16Tiles;  // tile registers; for dims where TakesAmxTiles

// Whether the table of codes widened to BF16 takes heads of these dimensions: others would leave few rows to scratch.
constexpr bool TakesF8DotTiles(int32_t head_dim, int32_t v_head_dim) {
  return head_dim % 64 == 0 && v_head_dim % 64 == 0;
}

// Whether the tile registers' table takes heads of these dimensions.
constexpr bool TakesAmxTiles(int32_t head_dim, int32_t v_head_dim) {
  return head_dim % 32 == 0 && v_head_dim % 16 == 0;
}

}  // namespace dunlin::kernels::cpu
