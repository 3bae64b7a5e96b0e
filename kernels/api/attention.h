// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention: over KV pages for the engine, over dense tensors for benches and reference tests.
//
// Semantics are PyTorch's: softmax(Q K^T * scale + mask) V; a fully masked row gives 0, never NaN.
// Bit contract: a query row's output depends only on its own query, its position and its keys. Key tiles start at
// absolute multiples of the tile size, so a row has the same bits in decode, in any prefill chunk and after a prefix
// hit; where prefill and decode differ, DeviceOps::prefill_matches_decode is false.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::kernels {

// How a causal mask is aligned when there are fewer or more queries than keys. kTopLeft: row i sees keys 0..i
// (PyTorch's is_causal). kBottomRight: the last row sees every key (a sequence continued from a cache; FlashAttention).
enum class CausalAlignment : uint8_t { kTopLeft, kBottomRight };

// An additive bias on the scaled scores, PyTorch's floating-point attn_mask. Element (batch, head, query, key) is
// data[batch * batch_stride + head * head_stride + query * query_stride + key]; a stride of 0 broadcasts. -inf masks.
struct AttentionBias {
  const void* data = nullptr;  // null: none
  DType dtype = DType::kF32;   // kF32, kF16 or kBF16
  int64_t batch_stride = 0;    // elements
  int64_t head_stride = 0;
  int64_t query_stride = 0;
};

// PyTorch's boolean attn_mask, laid out as the bias: the query sees the key where the byte is not 0. A masked key's
// value is multiplied by 0, so a NaN in it propagates, as in PyTorch.
struct AttentionMask {
  const uint8_t* data = nullptr;  // null: none
  int64_t batch_stride = 0;       // bytes
  int64_t head_stride = 0;
  int64_t query_stride = 0;
};

// The properties of a call that decide whether a backend supports it: the argument of DeviceOps::supports_attention.
struct AttentionTraits {
  DType dtype;           // of K and V (and of the rounded Q and P where the backend rounds)
  int32_t head_dim;      // > 0
  int32_t num_heads;     // > 0
  int32_t num_kv_heads;  // > 0, divides num_heads
  int32_t window = 0;    // as PagedAttentionParams
  float softcap = 0.0F;  // as PagedAttentionParams
  bool causal = true;
  bool sinks = false;           // as PagedAttentionParams
  int32_t v_head_dim = 0;       // of values and outputs; 0: head_dim
  bool values_in_keys = false;  // of KvShape
  // Of dense calls.
  bool bias = false;  // an AttentionBias is given
  bool mask = false;  // an AttentionMask is given; not together with causal
};

// One sequence of a paged call. Its last `query_len` tokens are the query rows; row i is at absolute position
// p = first_position + i. The pages hold kv_len == first_position + query_len keys, those of this call's tokens
// included. With a causal mask the row sees keys max(0, p - window + 1)..p; without one every key or, with a window,
// those up to (window - 1) / 2 away.
struct SequenceSpan {
  int32_t query_start;     // row of its first query in `query`
  int32_t query_len;       // >= 0; 0 is skipped
  int32_t first_position;  // >= 0
  int32_t page_table_row;  // row of page_table
};

// The keys that take part in a row's softmax, of those that it sees otherwise (key_selection.h). With it attention is
// causal, and neither a window nor a rule by a key's position is set; pages are not kF8E4M3. All heads of a row have as
// many.
struct KeySelection {
  const uint32_t* bits = nullptr;  // [*, stride]: bit s % 32 of word s / 32 for key s; null: all take part
  int64_t stride = 0;              // words, >= ceil(max_kv_tokens / 32) of the call
  int64_t head_stride = 0;         // words from the choice of a KV head to that of the next; 0: all have one
  const int32_t* rows = nullptr;   // [num_tokens] row of `bits` for each query row, or null for 0, 1, 2, ...
  // Keys of a row at most; > 0 where `bits` is set. If `bits` is null: of other calls over these pages, with one of
  // which, all keys chosen, this call shares its outputs to the last bit. 0: no call chooses.
  int32_t most = 0;
};

// Attention over KV pages of a batch of sequences, in prefill or decode. All pointers are device memory.
struct PagedAttentionParams {
  AttentionBackend backend;
  const float* query;    // [num_tokens, num_heads, head_dim], rows query_stride floats apart; rotary applied
  int64_t query_stride;  // floats, >= num_heads * head_dim
  float* out;            // [num_tokens, num_heads, v_head_dim], rows contiguous; must not alias query
  const void* kv_pool;   // page 0
  int32_t num_pages;     // of the pool: ids that are read are less; > 0 with sequences
  KvLayout layout;       // v_head_dim differs from head_dim with values_in_keys only
  int32_t layer;         // 0 <= layer < layout.shape.num_layers
  int32_t num_heads;     // a multiple of layout.shape.num_kv_heads
  // [rows, page_table_stride] page ids. Entries past a sequence's last page are not read. With a window, pages wholly
  // behind that of a sequence's first row may hold anything and be another's by now; their ids are ids of the pool.
  const int32_t* page_table;
  int64_t page_table_stride;  // entries
  const SequenceSpan* sequences;
  int32_t num_sequences;  // >= 0
  // The first of them, <= num_sequences, have a query_len of 1. For launchers, as the bounds below.
  int32_t num_one_token_sequences = 0;
  // Upper bounds over the sequences, for launchers, which cannot read device memory. They size grids and divide work;
  // results do not depend on them.
  int32_t num_rows;          // >= every query_start + query_len; a row is of one sequence at most
  int32_t max_query_tokens;  // >= every query_len
  int32_t max_kv_tokens;     // >= every first_position + query_len
  float scale;               // usually 1 / sqrt(head_dim)
  int32_t window = 0;        // sliding window: the most keys that a row sees, its own the last (Mistral) or, without a
                             // causal mask, in the middle of an odd number (ModernBERT); 0 is none
  float softcap = 0.0F;      // >= 0, finite; a scaled score s becomes softcap * tanh(s / softcap) (Gemma 2); 0 is none
  bool causal = true;        // false: the bidirectional attention of an encoder
  const float* alibi_slopes = nullptr;  // as DenseAttentionParams
  // By the absolute position of the key, the same for all sequences and queries: their strides are 0.
  AttentionBias bias = {};
  // [num_heads] or null: a logit of each head that joins a row's softmax and has no value (GPT-OSS's attention sinks).
  const float* sinks = nullptr;
  KeySelection selection = {};
  void* workspace;         // 64-byte aligned
  size_t workspace_bytes;  // >= DeviceOps::paged_attention_workspace(...) of a plan that covers this call
  // Fused with DeviceOps::quantize: writes the input of the output projection, [num_tokens, num_heads * v_head_dim], in
  // place of `out`, which is null. Only where DeviceOps::attention_fuses says so; never FP8, nor with an amax.
  Activation* next = nullptr;
};

// The largest call a workspace must serve.
struct PagedAttentionPlan {
  AttentionTraits traits;
  int32_t max_query_tokens;   // rows of one sequence in one call
  int32_t max_kv_tokens;      // keys of one sequence
  int32_t selected_keys = 0;  // KeySelection::most; 0: calls have no selection
};

// Attention over dense tensors, for benches and reference tests; K and V are packed into pages first. All pointers are
// device memory.
struct DenseAttentionParams {
  AttentionBackend backend;
  DType dtype;        // of q, k, v, out: kF32, kF16 or kBF16
  const void* q;      // [batch, num_heads, q_len, head_dim], contiguous
  const void* k;      // [batch, num_kv_heads, kv_len, head_dim], contiguous
  const void* v;      // [batch, num_kv_heads, kv_len, v_head_dim], contiguous
  void* out;          // [batch, num_heads, q_len, v_head_dim], contiguous
  int32_t batch;      // >= 0
  int32_t num_heads;  // a multiple of num_kv_heads
  int32_t num_kv_heads;
  int32_t q_len;   // >= 0
  int32_t kv_len;  // >= 0; 0 gives zeros
  int32_t head_dim;
  bool causal;
  CausalAlignment alignment;  // the queries' positions among the keys; read by causal, window and ALiBi
  float scale;
  // Applied to the scores in this order: scale, softcap, ALiBi, bias, mask.
  int32_t v_head_dim = 0;               // 0: head_dim
  int32_t window = 0;                   // as PagedAttentionParams
  float softcap = 0.0F;                 // as PagedAttentionParams
  const float* alibi_slopes = nullptr;  // [num_heads], or null; bias slope * (key - query position) (Press et al. 2021)
  AttentionBias bias = {};
  AttentionMask mask = {};
  void* workspace;         // 64-byte aligned
  size_t workspace_bytes;  // >= DeviceOps::dense_attention_workspace(params); MATH's holds all scores
};

}  // namespace dunlin::kernels
