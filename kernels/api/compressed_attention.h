// SPDX-License-Identifier: Apache-2.0
// Attention over a window of tokens and over entries, each of which stands for a group of `rate` consecutive tokens
// (DeepSeek V4). A token leaves rows in its page from which entries are made: values and gates, of one series or two.
// An entry is, of each dimension, the sum of its tokens' values weighted by the softmax of their gates plus a bias by
// the place in the group; then normalised and rotated as the group's first position. With two series it has the second
// series of its own tokens and the first one of the tokens of the group before. Source: transformers 5.23,
// models/deepseek_v4; DeepSeek-V4 report, section 2.3.
// Bit contract: an entry depends on its tokens' rows alone, and a row's choice and output on its own query, its keys
// and its entries, whichever call computes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"
#include "kernels/api/key_selection.h"

namespace dunlin::kernels {

// Where numbers of tokens or entries lie in pages: in the index block of a layer (KvShape::index_dim), as the page's
// dtype, contiguous. Those of a token begin at element slot * index_dim + offset. Entry e belongs to the page of its
// last token p = (e + 1) * rate - 1 and begins at element (p % tokens_per_page) / rate * entry_dim + offset there.
struct PagePlace {
  KvLayout layout;            // dtype kF32, kF16 or kBF16
  int32_t layer;              // 0 <= layer < layout.shape.num_layers
  int32_t offset;             // elements
  const int32_t* page_table;  // as PagedAttentionParams
};

// rate and tokens_per_page: one divides the other; index_dim * tokens_per_page holds entry_dim numbers of each entry.
struct EntryPlace {
  PagePlace place;
  int32_t entry_dim;  // elements of an entry, of all that it has
  int32_t rate;       // tokens, > 1
};

// Index dimensions of pages that hold entries, whatever the dtype.
constexpr int32_t EntryIndexDim(int32_t entry_dim, int32_t rate) {
  constexpr int32_t kFewestTokens = 8;  // of a page
  const int32_t entries = rate >= kFewestTokens ? 1 : kFewestTokens / rate;
  return (entry_dim * entries + kFewestTokens - 1) / kFewestTokens;
}

// Stores rows of tokens, then makes the entries whose last tokens they are.
struct CompressKeysParams {
  const float* rows;       // [num_tokens, 2, series, dim] values, then gates
  int32_t series;          // 1 or 2
  int32_t dim;             // of an entry's part, 1 to kCompressedDimMax
  const float* bias;       // [rate, series, dim]
  const float* norm;       // [dim] RMSNorm over dim
  float epsilon;           // > 0
  const float* inv_freq;   // [rotary_dim / 2]
  float attention_factor;  // of cosines and sines
  int32_t rotary_dim;      // even, <= dim: the last elements, of which neighbours rotate together
  void* kv_pool;           // page 0
  PagePlace row_place;
  EntryPlace entries;
  int64_t page_table_stride;
  const SequenceSpan* sequences;  // [num_sequences] rows of tokens
  int32_t num_sequences;          // >= 0
};
inline constexpr int32_t kCompressedDimMax = 1024;

// A row at position p sees the entries before (p + 1) / rate. Of these it chooses as SelectKeysParams says.
struct SelectEntriesParams {
  const float* queries;  // [*, num_heads, dim]
  const float* weights;  // [*, num_heads]
  int32_t num_heads;     // > 0
  int32_t dim;           // of an entry's index key, at the place's offset; even, <= 512
  int32_t top_k;         // > 0
  const void* kv_pool;
  EntryPlace entries;
  int64_t page_table_stride;
  const SequenceSpan* sequences;
  int32_t num_sequences;
  int32_t max_entries;      // >= those that any row sees
  float* scores;            // [kSelectionRows, max_entries] scratch
  uint32_t* selected;       // [*, selected_stride], as SelectKeysParams, of entries
  int64_t selected_stride;  // words, >= ceil(max_entries / 32)
};

// Paged attention of `window`, whose window is > 0, over the tokens' keys and in addition over entries, which are keys
// and values: window.selection.bits are those of entries, the stride their words; null: all that a row sees.
// window.selection.most: keys and entries of a row at most. Pages have keys alone, whose values they are, of one head
// (KvShape::values_in_keys).
// Workspace: DeviceOps::paged_attention_workspace of a plan with selected_keys >= that, and max_kv_tokens, too.
struct CompressedAttentionParams {
  PagedAttentionParams window;
  EntryPlace entries;
};

// Normalises heads of rows (RMSNorm over head_dim, with a weight or without) and rotates the last rotary_dim elements
// of each, of which neighbours rotate together; in place.
struct RotateHeadsParams {
  float* rows;           // [num_rows], row_stride floats apart
  int64_t row_stride;    // >= num_heads * head_dim
  int32_t num_rows;      // >= 0
  int32_t num_heads;     // > 0
  int32_t head_dim;      // > 0
  const float* norm;     // [head_dim] or null: all are 1
  float epsilon;         // 0: heads are not normalised
  const float* cos_sin;  // [num_rows, rotary_dim], RotaryTableParams'
  int32_t rotary_dim;    // even, <= head_dim
  bool back;             // by the angles times -1
};

}  // namespace dunlin::kernels
