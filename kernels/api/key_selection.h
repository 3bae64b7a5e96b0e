// SPDX-License-Identifier: Apache-2.0
// The choice of the keys that a row of sparse attention sees: one by one (DeepSeek V3.2's lightning indexer), or blocks
// of them by each head of keys (MiniMax M3). A token has an index key in its page, next to the keys and values of the
// layer (KvShape::index_dim). Source: DeepSeek-V3.2 report, section 2.1; transformers 5.24, models/minimax_m3_vl.
// Bit contract: a row's choice depends on its own queries and weights and on the index keys up to its position, each
// score in one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"

namespace dunlin::kernels {

// Rotates the first rotary_dim elements of index queries, in place, and of index keys, and writes the keys into the
// pages, rounded to the page dtype.
struct StoreIndexKeysParams {
  float* queries;             // [num_tokens, num_heads, layout.shape.index_dim]
  float* keys;                // [num_tokens, layout.shape.index_dim]; rotated in place
  const float* cos_sin;       // as RotateAndStoreKvParams, of all tokens
  int32_t rotary_dim;         // even, <= index_dim
  bool neighbours;            // elements (2i, 2i + 1) rotate together, not (i, i + rotary_dim / 2)
  int32_t num_heads;          // > 0
  void* kv_pool;              // page 0
  KvLayout layout;            // dtype kF32, kF16 or kBF16
  int32_t layer;              // 0 <= layer < layout.shape.num_layers
  const int32_t* token_page;  // [num_tokens] page id
  const int32_t* token_slot;  // [num_tokens] index inside the page
  int32_t num_tokens;         // >= 0
};

// Key s is of block s / tokens.
struct KeyBlocks {
  int32_t tokens = 0;  // of a block, a multiple of 16; 0: keys are chosen one by one
  int32_t local = 1;   // the last blocks up to a row's own, which it chooses first; >= 1
};

inline constexpr int32_t kSelectionRows = 64;  // that a call has scores of at once

// Of the keys up to its own position a row chooses the top_k with the largest scores, of equal ones the first; all of
// them where there are no more. The score of key s: sum over heads of weights[h] * max(queries[h] . key_s, 0), heads in
// order, in FP32.
// By blocks each head chooses for itself, without weights: the top_k / tokens blocks with the largest of the products
// queries[h] . key_s over the keys that the row sees, its last ones before all others. So all heads of a row choose as
// many keys.
struct SelectKeysParams {
  const float* queries;  // [*, num_heads, layout.shape.index_dim]
  const float* weights;  // [*, num_heads]; null by blocks
  int32_t num_heads;     // > 0
  int32_t top_k;         // > 0; by blocks a multiple of their tokens, >= local * tokens
  KeyBlocks blocks = {};
  const void* kv_pool;  // page 0
  KvLayout layout;
  int32_t layer;              // 0 <= layer < layout.shape.num_layers
  const int32_t* page_table;  // as PagedAttentionParams
  int64_t page_table_stride;
  const SequenceSpan* sequences;  // [num_sequences] rows of queries
  int32_t num_sequences;          // >= 0
  // Upper bounds over the sequences, for launchers, as those of PagedAttentionParams.
  int32_t num_rows;       // >= every query_start + query_len
  int32_t max_kv_tokens;  // >= every first_position + query_len
  float* scores;          // [kSelectionRows, max_kv_tokens] scratch; by blocks num_heads <= tokens / 2
  // [*, selected_stride] of each query row, by blocks [*, num_heads, selected_stride]: bit s % 32 of word s / 32 for
  // the keys s up to its position; later bits of the last word are 0.
  uint32_t* selected;
  int64_t selected_stride;  // words, >= ceil(max_kv_tokens / 32)
};

}  // namespace dunlin::kernels
