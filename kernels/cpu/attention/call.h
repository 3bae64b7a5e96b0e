// SPDX-License-Identifier: Apache-2.0
// One attention call as the algorithms see it, paged or dense: where queries, keys and outputs lie, and how many keys a
// row sees. Rows of a KV head are packed: row r is query token r / group of head kv_head * group + r % group, so the
// heads of a group share a tile's keys also when there is one token. Immutable while the call runs; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu {

// Rows of queries or outputs: element (token, head, d) of a sequence at
// data + (sequence offset + token * token_stride + head * head_stride + d) * SizeOf(dtype).
template <typename Byte>
struct RowTensor {
  Byte* data;
  DType dtype;           // kF32, kF16 or kBF16
  int64_t token_stride;  // elements
  int64_t head_stride;   // elements
};

// One sequence. Query token t sees the keys KeyStart(t) .. KeyLimit(t) - 1.
struct SequenceView {
  int32_t index;         // in the call
  int64_t query_offset;  // elements of RowTensor before its first token
  int64_t out_offset;
  int32_t query_len;
  int32_t kv_len;
  int32_t first_position;  // of token 0 among the keys
  int32_t first_limit;     // keys that token 0 sees; may be negative
  int32_t limit_step;      // 1 with a causal mask or a window, else 0
  int32_t window;          // 0: none
  const int32_t* pages;    // page ids, in order

  int32_t KeyLimit(int32_t token) const { return std::clamp(first_limit + limit_step * token, 0, kv_len); }
  int32_t KeyStart(int32_t token) const {
    return window == 0 ? 0 : std::clamp(first_limit + limit_step * token - window, 0, KeyLimit(token));
  }
};

// What is done to scaled scores before the softmax, beyond the range of keys a row sees.
struct ScoreRule {
  float scale = 1.0F;                   // >= 0, of the softmax
  float softcap = 0.0F;                 // 0: none
  const float* alibi_slopes = nullptr;  // [num_heads]; null: none
  AttentionBias bias = {};              // paged: without strides of sequences and queries
  AttentionMask mask = {};              // dense only
};

// The end of the keys that a row at `position` sees, in a sequence of kv_len. Without a causal mask a window reaches as
// far to both sides.
constexpr int32_t LimitAt(int32_t position, int32_t kv_len, bool causal, int32_t window) {
  if (causal) return position + 1;
  return window == 0 ? kv_len : position + 1 + window / 2;
}

struct AttentionCall {
  const TileOps* ops;
  KvLayout layout;
  const std::byte* kv_pool;
  int32_t layer;
  int32_t num_heads;
  int32_t group;           // query heads per KV head
  float query_sign;        // sign of the softmax scale, -1, 0 or 1: multiplies the query exactly
  float exponent_scale;    // what a score is multiplied by in the exponent of 2, > 0: |scale| * log2(e), or log2(e)
  bool adjusts;            // the scores follow `rule`, which scales them too
  ScoreRule rule;          // read only when adjusts
  int32_t window;          // 0: none
  const float* sinks;      // [num_heads] or null
  KeySelection selection;  // paged; read by gathered.h alone
  RowTensor<const std::byte> query;
  RowTensor<std::byte> out;
  int32_t num_sequences;
  const SequenceSpan* spans;  // paged; null for dense
  bool causal;
  const int32_t* page_table;
  int64_t page_table_stride;
  // Dense only: all sequences alike.
  int32_t dense_query_len;
  int32_t dense_kv_len;
  int32_t dense_first_position;

  int32_t head_dim() const { return layout.shape.head_dim; }
  int32_t v_head_dim() const { return layout.shape.v_head_dim; }
  int32_t num_kv_heads() const { return layout.shape.num_kv_heads; }
  SequenceView Sequence(int32_t index) const;
  void SetScale(float softmax_scale);
  // After SetScale: scores are adjusted by a rule; its scale is set here.
  void SetRule(float softmax_scale, const ScoreRule& score_rule);
};

// Multiples: floats of a row of O, and bytes of a packed query row.
constexpr int64_t PaddedDim(int32_t head_dim) {
  return (int64_t{head_dim} + 15) / 16 * 16;
}
constexpr int64_t QueryRowBytes(int32_t head_dim) {  // at most, for a buffer
  return PaddedDim(head_dim) * 4;
}
inline int64_t QueryRowBytes(const AttentionCall& call) {
  return PaddedDim(call.head_dim()) * (call.ops->bf16_pairs ? 2 : 4);
}
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Bytes of a tile's value blocks that are made of its keys; 0 where pages have value blocks.
constexpr int64_t MadeValueBytes(bool values_in_keys, DType kv_dtype, int32_t v_head_dim) {
  if (!values_in_keys) return 0;
  return (int64_t{v_head_dim} + 1) / 2 * 2 * kTileKeys * static_cast<int64_t>(SizeOf(kv_dtype));
}
inline int64_t MadeValueBytes(const AttentionCall& call) {
  return MadeValueBytes(call.layout.shape.values_in_keys, call.layout.dtype, call.v_head_dim());
}

// Blocks of a whole tile.
constexpr int TileBlocks(const KvLayout& layout) {
  return kTileKeys / layout.tokens_per_page;
}

// Writes the blocks of the tile that starts at key `first`, a multiple of kTileKeys below the sequence's kv_len: to
// keys and to values TileBlocks each. Pages past the sequence's end repeat a valid page: its keys are then masked.
// Without value blocks (KvShape::values_in_keys) values are those of the keys, for TileValues.
void ListTile(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int32_t first,
              const std::byte** keys, const std::byte** values);

// What TileOps::values reads of a tile, and prefetches meanwhile.
struct TileValueBlocks {
  const std::byte* const* values;  // [TileBlocks]
  const std::byte* const* next;
};

// `values` and `next` of ListTile themselves; without value blocks in the pages, those made of the keys, which lie in
// the cache then. keys: of the tile that any row sees, at least 1. memory: MadeValueBytes, 64-byte aligned. made:
// [TileBlocks], borrowed by the result.
TileValueBlocks TileValues(const AttentionCall& call, const std::byte* const* values, const std::byte* const* next,
                           int32_t keys, std::byte* memory, const std::byte** made);

// The scales of the values of `tiles` tiles' blocks from key `first` of `scales` on, [first + tiles * kTileKeys], those
// before it zeros; null, and nothing written, where the call's table does not have them in P. Returns scales.
const float* LoadValueScales(const AttentionCall& call, const std::byte* const* values, int tiles, int32_t first,
                             float* scales);

}  // namespace dunlin::kernels::cpu
