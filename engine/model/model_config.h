// A transformer as data: what the layer is made of, so that an architecture is one file and one row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/types.h"
#include "kernels/api/layer_ops.h"

namespace dunlin::engine {

// Decoders see the tokens before them and generate; encoders see both ways and give hidden states.
enum class ModelKind : uint8_t { kDecoder, kEncoder };

// Every field is filled and cross-checked by an architecture's ParseConfig; the forward pass trusts it.
// One decoder layer: x += OutProjection(Attention(Norm1(x))); x += Down(Activation(Up(Norm2(x)))).
// parallel_residual: both terms are computed from the x before the layer. post_norms: x += PostNorm(...) of each term.
// One encoder layer: x = Norm1(x + OutProjection(Attention(x))); x = Norm2(x + Down(Activation(Up(x)))); the embedding
// has a norm of its own, and neither a final norm nor a head exists.
struct ModelConfig {
  std::string architecture;  // the row's name: "gpt2", "llama", ...
  ModelKind kind = ModelKind::kDecoder;

  int32_t num_layers = 0;
  int32_t hidden_dim = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // need not be hidden_dim / num_heads
  int32_t ffn_dim = 0;
  int32_t vocab_size = 0;   // rows of the embedding
  int32_t max_context = 0;  // tokens

  kernels::NormKind norm_kind = kernels::NormKind::kLayerNorm;
  float norm_epsilon = 1e-5F;
  bool norm_bias = false;
  float norm_weight_offset = 0.0F;  // added to every norm weight at load (Gemma stores w and means 1 + w)

  bool parallel_residual = false;
  bool shared_norm = false;  // the MLP reads Norm1's output and there is no Norm2; with parallel_residual only
  bool post_norms = false;
  bool qk_norm = false;  // RMSNorm over each head of Q and K, before the rotation

  kernels::ActivationKind activation = kernels::ActivationKind::kGeluTanh;
  bool gated_mlp = false;  // Up is [2 * ffn_dim, hidden_dim], gate rows first

  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool tied_embeddings = false;
  float embedding_scale = 1.0F;  // multiplies the embedding, rounded to the dtype that the model runs in
  float logit_softcap = 0.0F;    // logits become cap * tanh(logits / cap); 0: they stay

  bool learned_positions = false;        // a [position_rows, hidden_dim] table added to the embedding
  int32_t position_offset = 0;           // row of a sequence's first position (RoBERTa: padding_idx + 1)
  TokenId position_pad_id = -1;          // such a token takes row position_offset - 1 and no position; -1: none does
  int32_t num_token_types = 0;           // rows of a table whose row 0 is added to every embedding; 0: no table
  int32_t rotary_dim = 0;                // 0: no rotary positions
  std::vector<float> inv_freq;           // [rotary_dim / 2], the scaling (linear, llama3, yarn) already applied
  float rotary_attention_factor = 1.0F;  // multiplies cos and sin (yarn)
  float attention_scale = 0.0F;          // multiplies Q K^T
  float attention_softcap = 0.0F;        // scaled scores become cap * tanh(score / cap); 0: they stay
  std::vector<int32_t> layer_windows;    // [num_layers] keys that a row sees, its own the last, 0: all; empty: all 0
  // GPT-2's scale_attn_by_inverse_layer_idx: 1 / (layer + 1) is folded into the query rows at load, not done later.
  bool inverse_layer_query_scale = false;

  std::vector<TokenId> eos_token_ids;  // generation_config.json's, else config.json's; each < vocab_size
  TokenId bos_token_id = -1;           // -1: none

  bool is_encoder() const { return kind == ModelKind::kEncoder; }
  int32_t position_rows() const { return max_context + position_offset; }
  int32_t window(int32_t layer) const { return layer_windows.empty() ? 0 : layer_windows[static_cast<size_t>(layer)]; }
  int32_t qkv_features() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  int32_t up_features() const { return gated_mlp ? 2 * ffn_dim : ffn_dim; }
};

}  // namespace dunlin::engine
