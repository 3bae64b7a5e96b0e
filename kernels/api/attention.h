// Scaled dot-product attention in three implementations: MATH (unfused oracle), FLASH (tiled, online softmax with a
// running rescale), EFFICIENT (fixed-size key chunks reduced alone, merged in ascending order).
//
// Semantics are PyTorch's: softmax(Q K^T * scale + mask) V; a fully masked row gives 0, never NaN.
// Bit contract: a query row's output depends on its own query, its position and its keys alone. Key tiles start at
// absolute multiples of the tile, so a row has the same bits in decode, in any prefill chunk and after a prefix hit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::kernels {

enum class AttentionBackend : uint8_t { kMath, kFlash, kEfficient };
inline constexpr int kNumAttentionBackends = 3;
// The order in which AUTO tries them.
inline constexpr AttentionBackend kAutoOrder[kNumAttentionBackends] = {
    AttentionBackend::kFlash, AttentionBackend::kEfficient, AttentionBackend::kMath};

constexpr const char* Name(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::kMath:
      return "math";
    case AttentionBackend::kFlash:
      return "flash";
    case AttentionBackend::kEfficient:
      return "efficient";
  }
  return "?";
}

// How a causal mask is aligned when there are fewer or more queries than keys. kTopLeft: row i sees keys 0..i
// (PyTorch's is_causal). kBottomRight: the last row sees every key (a sequence continued from a cache; FlashAttention).
enum class CausalAlignment : uint8_t { kTopLeft, kBottomRight };

// An additive bias on the scaled scores, PyTorch's floating-point attn_mask. Element (batch, head, query, key) stands
// at data + batch * batch_stride + head * head_stride + query * query_stride + key; a stride of 0 broadcasts. -inf
// masks.
struct AttentionBias {
  const void* data = nullptr;  // null: none
  DType dtype = DType::kF32;   // kF32, kF16 or kBF16
  int64_t batch_stride = 0;    // elements
  int64_t head_stride = 0;
  int64_t query_stride = 0;
};

// PyTorch's boolean attn_mask, laid out as the bias: the query sees the key where the byte is not 0. A masked key's
// value is multiplied by 0, so that a NaN in it shows.
struct AttentionMask {
  const uint8_t* data = nullptr;  // null: none
  int64_t batch_stride = 0;       // bytes
  int64_t head_stride = 0;
  int64_t query_stride = 0;
};

// What a call will ask of a backend; the question put to DeviceOps::supports_attention.
struct AttentionTraits {
  DType dtype;           // of K and V (and of the rounded Q and P where the backend rounds)
  int32_t head_dim;      // > 0
  int32_t num_heads;     // > 0
  int32_t num_kv_heads;  // > 0, divides num_heads
  int32_t window = 0;    // keys that a row sees at most, its own the last; 0 sees all. Needs causal
  float softcap = 0.0F;  // >= 0, finite; 0 is none
  bool causal = true;
  int32_t v_head_dim = 0;  // of values and outputs; 0: head_dim
  bool bias = false;       // the dense op's, as what follows
  bool mask = false;       // not together with causal
  bool alibi = false;
  float dropout_probability = 0.0F;  // 0: this is inference
};

// One sequence of a paged call. Its last `query_len` tokens are the rows; row i stands at absolute position
// p = first_position + i. Keys 0..kv_len-1 are in its pages, those of this very call included;
// kv_len == first_position + query_len. Causal, the row sees keys max(0, p - window + 1)..p; else it sees every key.
struct SequenceSpan {
  int32_t query_start;     // row of its first query in `query`
  int32_t query_len;       // >= 0; 0 is skipped
  int32_t first_position;  // >= 0
  int32_t page_table_row;  // row of page_table
};

// Attention of a batch of sequences whose keys and values lie in KV pages (prefill and decode alike).
struct PagedAttentionParams {
  AttentionBackend backend;
  const float* query;    // [num_tokens, num_heads, head_dim], rows query_stride floats apart; rotary applied
  int64_t query_stride;  // floats, >= num_heads * head_dim
  float* out;            // [num_tokens, num_heads, head_dim], rows contiguous; must not alias query
  const void* kv_pool;   // page 0
  KvLayout layout;
  int32_t layer;              // 0 <= layer < layout.shape.num_layers
  int32_t num_heads;          // a multiple of layout.shape.num_kv_heads
  const int32_t* page_table;  // [rows, page_table_stride] page ids; entries past a sequence's last page are not read
  int64_t page_table_stride;  // entries
  const SequenceSpan* sequences;
  int32_t num_sequences;  // >= 0
  // Bounds over the sequences, for who launches and cannot read `sequences` where it lies: they size grids and decide
  // how work is divided, never a result.
  int32_t max_query_tokens;  // >= every query_len
  int32_t max_kv_tokens;     // >= every first_position + query_len
  float scale;               // usually 1 / sqrt(head_dim)
  int32_t window = 0;        // >= 0; keys that a row sees at most, its own the last (Mistral); 0 sees all. Needs causal
  float softcap = 0.0F;      // >= 0; a scaled score s becomes softcap * tanh(s / softcap) (Gemma 2); 0 is none
  bool causal = true;        // false: the bidirectional attention of an encoder
  void* workspace;           // 64-byte aligned
  size_t workspace_bytes;    // >= DeviceOps::paged_attention_workspace(...) of a plan that covers this call
  // The input of the product behind the attention, filled as DeviceOps::quantize fills it, without a pass of its own;
  // then out is null. columns == num_heads * head_dim, a row for each query row. Only where DeviceOps::attention_fuses
  // says so; never in FP8, nor with an amax.
  Activation* next = nullptr;
};

// The largest call a workspace must serve.
struct PagedAttentionPlan {
  AttentionTraits traits;
  int32_t max_query_tokens;  // rows of one sequence in one call
  int32_t max_kv_tokens;     // keys of one sequence
};

// Attention on dense tensors, the form of the benches and of the reference tests. K and V are packed on the way in.
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
  CausalAlignment alignment;  // where the queries stand among the keys: read by causal, window and ALiBi
  float scale;
  // Scores, in this order: scale, softcap, ALiBi, bias, mask.
  int32_t v_head_dim = 0;               // 0: head_dim
  int32_t window = 0;                   // as PagedAttentionParams
  float softcap = 0.0F;                 // as PagedAttentionParams
  const float* alibi_slopes = nullptr;  // [num_heads], or null; bias slope * (key - query position) (Press et al. 2021)
  AttentionBias bias = {};
  AttentionMask mask = {};
  float dropout_probability = 0.0F;  // only 0 is supported
  void* workspace;                   // 64-byte aligned
  size_t workspace_bytes;            // >= DeviceOps::dense_attention_workspace(params); MATH's holds all of S
};

}  // namespace dunlin::kernels
