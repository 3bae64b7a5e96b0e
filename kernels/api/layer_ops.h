// SPDX-License-Identifier: Apache-2.0
// The operations between the GEMMs of a transformer layer, each one pass over its rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::kernels {

enum class NormKind : uint8_t { kLayerNorm, kRmsNorm };

// LayerNorm: (x - mean) / sqrt(var + epsilon) * weight + bias, variance over N.
// RMSNorm: x / sqrt(mean(x^2) + epsilon) * weight. Accumulates in FP32, one fixed order per row.
// A residual is added after the norm. Writes the rows as the input of the next GEMM, rounded or quantised in the same
// pass, and also in FP32 where rows_out is given. With rows_out, out->data may be null: then only rows_out is written
// and only out->columns is read. Source: Ba et al. 2016, eq. 4; Zhang & Sennrich 2019, eq. 4.
struct NormParams {
  NormKind kind;
  const float* in;                  // [*, hidden_dim], contiguous rows
  const int32_t* rows;              // [num_rows] input row of each output row, or null for 0, 1, 2, ...
  const float* weight;              // [hidden_dim]
  const float* bias;                // [hidden_dim] or null
  float epsilon;                    // > 0
  Activation* out;                  // columns == hidden_dim
  int32_t num_rows;                 // >= 0
  float* rows_out = nullptr;        // [num_rows, hidden_dim], contiguous, or null; may be `in` when `rows` is null
  const float* residual = nullptr;  // [num_rows, hidden_dim], contiguous, or null; may be rows_out
  const float* factor = nullptr;    // [1] or null: of the sum with the residual; not without one
};

// values = cap * tanh(values / cap), in place: Gemma 2's soft cap on logits. NaN stays NaN.
struct SoftcapParams {
  float* values;     // [num_rows, columns], contiguous rows
  float cap;         // > 0
  int32_t num_rows;  // >= 0
  int32_t columns;   // > 0
};

// Converts FP32 rows to a GEMM input: copied for FP32 and FP16, rounded for BF16, quantised by out->scaling for FP8.
struct QuantizeParams {
  const float* in;    // [*, out->columns], rows in_stride apart
  int64_t in_stride;  // floats, >= out->columns
  Activation* out;
  int32_t num_rows;               // >= 0
  const int32_t* rows = nullptr;  // [num_rows] input row of each output row, >= 0, may repeat; null: 0, 1, 2, ...
};

// out = f(in), or f(in[:, :F]) * in[:, F:] when gated (SwiGLU and variants); F = out->columns. With a limit
// min(f(in[:, :F]), limit) * clamp(in[:, F:], -limit, limit) (Step 3.5) or, with cuts_before,
// f(min(in[:, :F], limit)) * clamp(in[:, F:], -limit, limit) (DeepSeek V4). With a curve, not gated,
// f is xIELU (Apertus):
//   f(x) = positive x^2 + beta x where x > 0, else (negative + beta) (expm1(min(x, epsilon)) - x) + beta x
// Source: Huang & Schlag 2024, "Deriving Activation Functions Using Integration".
struct ActivateParams {
  ActivationKind kind;
  bool gated;
  const float* in;  // [num_rows, F] or [num_rows, 2 F] (gate first), contiguous
  Activation* out;
  int32_t num_rows;              // >= 0
  float* rows_out = nullptr;     // [num_rows, F], as NormParams::rows_out; may be `in` when not gated
  float limit = 0.0F;            // > 0, when gated and not with kClampedSwish; 0: none
  bool cuts_before = false;      // with a limit
  const float* curve = nullptr;  // [4] positive, negative, beta, epsilon of xIELU in place of `kind`; or null
};

// Whether the limit and the curve are as ActivateParams says.
inline bool ValidShape(const ActivateParams& params) {
  if (params.curve != nullptr && (params.gated || params.limit != 0.0F)) return false;
  return params.limit == 0.0F || (params.limit > 0.0F && params.gated && params.kind != ActivationKind::kClampedSwish);
}

// rows = ((rows + bias) + residual) * factor, each where it is given: what a GEMM or a norm without them leaves to do.
struct AddParams {
  float* rows;                    // [num_rows, columns], contiguous
  const float* bias;              // [columns] or null
  const float* residual;          // [num_rows, columns] or null; may be rows itself
  int32_t num_rows;               // >= 0
  int32_t columns;                // > 0
  const float* factor = nullptr;  // [1] or null
};

// out[i, :] = in[rows[i], :].
struct CopyRowsParams {
  const float* in;      // [*, columns], rows in_stride apart
  int64_t in_stride;    // floats, >= columns
  const int32_t* rows;  // [num_rows] input row of each output row, >= 0; may repeat
  float* out;           // [num_rows, columns], contiguous; must not overlap `in`
  int32_t num_rows;     // >= 0
  int32_t columns;      // > 0
};

// Of each row `num_blocks` blocks of `columns` floats: block b from in + b * in_block_stride to out + b *
// out_block_stride.
struct CopyColumnsParams {
  const float* in;
  int64_t in_stride;         // floats, from a row to the next, >= 0
  int64_t in_block_stride;   // floats, >= 0
  float* out;                // must not overlap `in`
  int64_t out_stride;        // floats, >= (num_blocks - 1) * out_block_stride + columns
  int64_t out_block_stride;  // floats, >= columns where there are several blocks
  int32_t num_rows;          // >= 0
  int32_t num_blocks;        // > 0
  int32_t columns;           // > 0
};

// Cosines and sines of all rotations of a step, shared by its layers.
// Row t: cos[0..rotary_dim/2), then sin[0..rotary_dim/2); angle = positions[t] * inv_freq[i] (FP32 product), both
// multiplied by attention_factor (YaRN's; 1 otherwise).
struct RotaryTableParams {
  const int32_t* positions;  // [num_tokens], >= 0
  const float* inv_freq;     // [rotary_dim / 2], radians per position
  float attention_factor;
  int32_t rotary_dim;  // even, <= head_dim
  float* cos_sin;      // [num_tokens, rotary_dim]
  int32_t num_tokens;  // >= 0
};

// A factor of a token's queries that grows with its position: 1 + beta * ln(1 + (position + offset) / period), the
// quotient an integer; in FP32. Source: transformers 5.23, models/ministral3, get_llama_4_attn_scale; models/llama4.
struct QueryScale {
  const int32_t* positions = nullptr;  // [num_tokens], >= 0; null: no factor
  float beta = 0.0F;
  int32_t period = 1;  // tokens, > 0
  int32_t offset = 0;  // tokens, >= 0
};

// Rotates Q (in place) and K of a fused projection, then writes K and V into the KV pages, rounded to the page dtype.
// Rotation pairs element i with i + rotary_dim / 2 (the Hugging Face order). Where a norm weight is given, every head
// of Q or K goes through RMSNorm over head_dim first (Qwen 3's QK-norm), or all heads of Q, and all of K, through one
// over all of their elements (OLMo 2's). Hunyuan's norms of heads come after the rotation. Rotated queries take the
// factor of query_scale.
struct RotateAndStoreKvParams {
  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]: Q heads, K heads, V heads; with
  // layout.shape.values_in_keys without V heads, with query_only without those of K and V.
  float* qkv;
  const float* cos_sin;  // [num_tokens, rotary_dim], or null for no rotation
  int32_t rotary_dim;    // even, <= head_dim
  int32_t num_heads;     // a multiple of layout.shape.num_kv_heads
  void* kv_pool;         // page 0
  KvLayout layout;
  int32_t layer;                      // 0 <= layer < layout.shape.num_layers
  const int32_t* token_page;          // [num_tokens] page id
  const int32_t* token_slot;          // [num_tokens] index inside the page, 0 <= slot < tokens_per_page
  int32_t num_tokens;                 // >= 0
  const float* query_norm = nullptr;  // [head_dim], joint: [num_heads * head_dim]; or null
  const float* key_norm = nullptr;    // [head_dim], joint: [num_kv_heads * head_dim]; or null
  float norm_epsilon = 0.0F;          // > 0 where there is a norm
  bool joint_norms = false;           // one norm over all heads, not one of each
  bool norms_after = false;           // the norms of heads follow the rotation; not with joint_norms
  bool query_only = false;            // the heads of Q are rotated, and nothing is stored
  // With query_only, [num_tokens]: the row of cos_sin, and of query_scale.positions, of each token; null: 0, 1, 2, ...
  const int32_t* rows = nullptr;
  bool value_norm = false;  // RMSNorm without a weight over each head of V
  QueryScale query_scale = {};
};

}  // namespace dunlin::kernels
