// SPDX-License-Identifier: Apache-2.0
// One attention call as the kernels see it, over pages or dense tensors: the layout of queries, keys, values and
// outputs, how many keys a row sees, and what is applied to its scores. Rows of a KV head are packed: row r is query
// token r / group of head kv_head * group + r % group, so the heads of a group share a tile's keys even for a single
// token.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/api/attention.h"
#include "kernels/cuda/device/layout.h"

namespace dunlin::kernels::cuda {

DUNLIN_HD constexpr int32_t AtLeast(int32_t value, int32_t low) {
  return value > low ? value : low;
}
DUNLIN_HD constexpr int32_t AtMost(int32_t value, int32_t high) {
  return value < high ? value : high;
}
DUNLIN_HD constexpr int32_t Clamp(int32_t value, int32_t low, int32_t high) {
  return AtLeast(AtMost(value, high), low);
}

DUNLIN_HD inline float LoadElement(DType dtype, const unsigned char* row, int64_t at) {
  switch (dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(row)[at];
    case DType::kF16:
      return FromFp16(reinterpret_cast<const uint16_t*>(row)[at]);
    case DType::kBF16:
      return FromBf16(reinterpret_cast<const uint16_t*>(row)[at]);
    case DType::kF8E4M3:
      return FromE4M3(row[at]);
  }
  return 0.0F;
}

// Rows of queries or outputs: element d of (sequence, token, head) is at the sum of their offsets + d. A paged sequence
// starts query_start tokens in, a dense one at a multiple of sequence_stride.
template <typename Byte>
struct RowTensor {
  Byte* data;
  DType dtype;  // kF32, kF16 or kBF16
  int32_t element_bytes;
  int64_t sequence_stride;  // elements
  int64_t token_stride;
  int64_t head_stride;
};

// Keys or values of a call. A row of a sequence and KV head is contiguous.
struct KvTensor {
  const unsigned char* data;  // of KV head 0; paged: of page 0, at the call's layer
  DType dtype;
  int32_t dim;
  int64_t head_bytes;      // from one KV head to the next
  int64_t row_bytes;       // from one key to the next, within a page
  int64_t sequence_bytes;  // dense
  int64_t scale_offset;    // E4M3: from `data` to the FP32 scales of a page's block
  bool whole_pieces;       // every row is 16-byte aligned and a multiple of 16 bytes long
};

// One sequence. Query token t sees the keys KeyStart(t) to KeyLimit(t) - 1.
struct SequenceView {
  int32_t index;        // in the call
  int64_t query_start;  // elements from RowTensor's start to its first token
  int64_t out_start;
  int32_t query_len;
  int32_t kv_len;
  int32_t first_limit;  // keys that token 0 sees; may be negative
  int32_t window;       // 0: none
  const int32_t* pages;

  DUNLIN_HD int32_t KeyLimit(int32_t token) const { return Clamp(first_limit + token, 0, kv_len); }
  DUNLIN_HD int32_t KeyStart(int32_t token) const {
    return window == 0 ? 0 : Clamp(first_limit + token - window, 0, KeyLimit(token));
  }
};

struct AttentionCall {
  RowTensor<const unsigned char> query;
  RowTensor<unsigned char> out;
  KvTensor keys;
  KvTensor values;
  int32_t num_sequences;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t group;  // query heads per KV head
  // Paged; spans is null for dense calls.
  const SequenceSpan* spans;
  const int32_t* page_table;
  int64_t page_table_stride;
  int64_t page_bytes;
  int32_t page_shift;
  // Dense: the same for all sequences.
  int32_t dense_query_len;
  int32_t dense_kv_len;
  int32_t first_position;
  // Visibility and scores. A row sees limit_ahead keys from its position on, its own the first.
  int32_t limit_ahead;
  int32_t window;
  float scale;
  float softcap;
  const float* alibi_slopes;
  AttentionBias bias;
  AttentionMask mask;
  // Bounds over the sequences.
  int32_t max_query_tokens;
  int32_t max_kv_tokens;
  const float* sinks;      // [num_heads] or null; last, because further up it costs FLASH a register too many on sm_100
  KeySelection selection;  // paged

  DUNLIN_HD bool adjusts() const {
    return softcap > 0.0F || alibi_slopes != nullptr || bias.data != nullptr || mask.data != nullptr ||
           selection.bits != nullptr;
  }
  DUNLIN_HD SequenceView Sequence(int32_t index) const;
  // Host. Without a causal mask a window reaches as far to both sides.
  void SetVisible(bool causal, int32_t window_keys) {
    constexpr int32_t kAll = 1 << 30;  // more than a context, and a sum with a position does not overflow
    limit_ahead = causal ? 1 : window_keys > 0 ? 1 + window_keys / 2 : kAll;
    window = window_keys;
  }
};

// The rows of one (sequence, KV head) of a call's keys or values.
struct KvRows {
  const AttentionCall& call;
  const KvTensor& tensor;
  const unsigned char* data;
  const int32_t* pages;  // page ids, in order; null: dense

  DUNLIN_HD const unsigned char* Row(int32_t key) const {
    if (pages == nullptr) return data + key * tensor.row_bytes;
    return Page(key) + Slot(key) * tensor.row_bytes;
  }
  // Scales of E4M3 codes.
  DUNLIN_HD float Scale(int32_t key) const {
    return reinterpret_cast<const float*>(Page(key) + tensor.scale_offset)[Slot(key)];
  }

 private:
  DUNLIN_HD const unsigned char* Page(int32_t key) const {
    return data + pages[key >> call.page_shift] * call.page_bytes;
  }
  DUNLIN_HD int32_t Slot(int32_t key) const { return key & ((1 << call.page_shift) - 1); }
};

// tensor: the call's keys or values.
DUNLIN_HD inline KvRows RowsOf(const AttentionCall& call, const KvTensor& tensor, const SequenceView& sequence,
                               int32_t kv_head) {
  const unsigned char* head = tensor.data + kv_head * tensor.head_bytes;
  return {call, tensor, call.spans == nullptr ? head + sequence.index * tensor.sequence_bytes : head, sequence.pages};
}

DUNLIN_HD inline SequenceView AttentionCall::Sequence(int32_t index) const {
  if (spans == nullptr) {
    return {.index = index,
            .query_start = index * query.sequence_stride,
            .out_start = index * out.sequence_stride,
            .query_len = dense_query_len,
            .kv_len = dense_kv_len,
            .first_limit = first_position + limit_ahead,
            .window = window,
            .pages = nullptr};
  }
  const SequenceSpan span = spans[index];
  const int32_t kv_len = span.first_position + span.query_len;
  return {.index = index,
          .query_start = span.query_start * query.token_stride,
          .out_start = span.query_start * out.token_stride,
          .query_len = span.query_len,
          .kv_len = kv_len,
          .first_limit = span.first_position + limit_ahead,
          .window = window,
          .pages = page_table + span.page_table_row * page_table_stride};
}

// Host: builds the call from API parameters, which are not checked here.
AttentionCall CallOf(const PagedAttentionParams& params);
AttentionCall CallOf(const DenseAttentionParams& params);

}  // namespace dunlin::kernels::cuda
