// SPDX-License-Identifier: Apache-2.0
// A transformer described as data, so that an architecture is one file and one row of a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/request/types.h"
#include "kernels/api/experts.h"
#include "kernels/api/layer_ops.h"

namespace dunlin::engine {

// Decoders generate tokens; encoders return hidden states.
enum class ModelKind : uint8_t { kDecoder, kEncoder };

// Where the norms of a layer x += F(x) stand; F is the attention or the MLP.
enum class NormPlacement : uint8_t {
  kPre,         // x += F(Norm(x)); a norm before the head
  kPost,        // x = Norm(x + F(x)); a norm after the embeddings, none before the head (Vaswani et al. 2017, BERT)
  kPreAndPost,  // x += PostNorm(F(Norm(x))); a norm before the head (Gemma 2)
  kPostInside,  // x += PostNorm(F(x)); a norm before the head (EXAONE 4)
};

// Multi-head latent attention (DeepSeek V2): keys and values of all heads are linear in one latent row of a token. A
// page holds that row, [rope_dim rotated, kv_rank normed], as the one KV head; the heads' key matrices are applied to
// the queries before the attention and their value matrices to its sums.
struct LatentAttention {
  int32_t kv_rank = 0;     // of the latent row; 0: the model has no such attention
  int32_t query_rank = 0;  // 0: queries are computed from the hidden row itself
  int32_t plain_dim = 0;   // of a head's query and key, without positions
  int32_t rope_dim = 0;    // of a head's query and of the key that all heads share, rotated; even
  int32_t value_dim = 0;   // of a head's value
};

// Filled and cross-checked by an architecture's ParseConfig; the forward pass trusts it.
// A layer: x += OutProjection(Attention(Norm1(x))); x += Down(Activation(Up(Norm2(x)))), norms as norm_placement says.
// parallel_residual: both terms are computed from the x before the layer.
struct ModelConfig {
  std::string architecture;  // Architecture::name: "gpt2", "llama", ...
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
  NormPlacement norm_placement = NormPlacement::kPre;
  float norm_weight_offset = 0.0F;  // added to every norm weight at load (Gemma stores w and means 1 + w)

  bool first_norm_absent = false;  // the attention of layer 0 reads the rows as they are; kPre without shared_norm

  bool parallel_residual = false;
  bool shared_norm = false;    // the MLP reads Norm1's output and there is no Norm2; with parallel_residual only
  bool qk_norm = false;        // RMSNorm over each head of Q and K, before the rotation
  bool qk_norm_joint = false;  // with qk_norm: one RMSNorm over all heads of Q, and one over all of K
  bool causal = true;          // a token attends to itself and the tokens before it; false: to every token of its input

  kernels::ActivationKind activation = kernels::ActivationKind::kGeluTanh;
  bool gated_mlp = false;  // Up is [2 * ffn_dim, hidden_dim], gate rows first

  // Mixtures of experts: in place of its MLP a layer has a router, experts and, where shared_ffn_dim > 0, one expert
  // more that every token takes. All of them are MLPs with this activation and gate.
  kernels::ExpertRouting routing;  // num_experts 0: every layer has the one MLP
  int32_t expert_ffn_dim = 0;
  int32_t shared_ffn_dim = 0;
  bool shared_gate = false;        // the shared expert's output is multiplied by sigmoid(gate x)
  std::vector<bool> dense_layers;  // [num_layers] layers with one MLP of ffn_dim; empty: none
  bool router_bias = false;        // of the router's logits
  bool router_correction = false;  // RouteExpertsParams::correction
  bool expert_bias = false;        // of the matrices of the experts

  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool tied_embeddings = false;
  float embedding_scale = 1.0F;  // multiplies the embedding; rounded to the dtype that the model runs in
  float logit_softcap = 0.0F;    // logits become cap * tanh(logits / cap); 0: no cap
  float residual_scale =
      1.0F;                  // multiplies what the attention and the MLP add; folded into their last matrices at load
  float logit_scale = 1.0F;  // multiplies logits; folded into the final norm at load

  bool embedding_norm = false;     // a norm after the embeddings; always with kPost
  bool learned_positions = false;  // a [position_rows, hidden_dim] table added to the embedding
  int32_t position_offset = 0;     // row of a sequence's first position (RoBERTa: padding_idx + 1)
  TokenId position_pad_id = -1;    // this token takes row position_offset - 1 and no position; -1: no such token
  int32_t num_token_types = 0;     // rows of a table, of which one is added to every embedding; 0: none
  int32_t rotary_dim = 0;          // 0: no rotary positions
  std::vector<float> inv_freq;     // [num_rotaries, rotary_dim / 2], the scaling (linear, ...) already applied
  std::vector<float> rotary_attention_factors;  // [num_rotaries] multiplies cos and sin (yarn, longrope); empty: 1
  std::vector<int8_t> layer_rotary;             // [num_layers] index of the frequencies, -1: no positions; empty: all 0
  // Pairs of dimensions (2i, 2i + 1) rotate together, not (i, i + rotary_dim / 2): rows of Q and K change places at
  // load.
  bool interleaved_rotary = false;
  // With it num_kv_heads is 1, head_dim rope_dim + kv_rank, and rotary_dim rope_dim.
  LatentAttention latent;
  std::vector<float> alibi_slopes;  // [num_heads] of ALiBi's bias by distance, without rotary positions; empty: none
  // [num_heads, max_context] added to a scaled score by the position of the key (Falcon's ALiBi), without rotary
  // positions; empty: none.
  std::vector<float> key_bias;
  float attention_scale = 0.0F;    // multiplies Q K^T
  float attention_softcap = 0.0F;  // scaled scores become cap * tanh(score / cap); 0: no cap
  bool attention_sinks = false;    // PagedAttentionParams::sinks
  // [num_layers] keys that a token sees, its own the last or, where not causal, in the middle of an odd number; 0 or
  // empty: all.
  std::vector<int32_t> layer_windows;
  // GPT-2's scale_attn_by_inverse_layer_idx: 1 / (layer + 1), folded into the query rows at load.
  bool inverse_layer_query_scale = false;

  // An encoder's head of a sequence classifier: logits = Out(tanh(Dense(row))) or, with classifier_norm,
  // Out(Norm(classifier_activation(Dense(row)))). The row is the hidden state of the first token or, with
  // classifier_mean, the mean of all tokens'. 0: none.
  int32_t num_labels = 0;
  bool classifier_mean = false;
  bool classifier_norm = false;
  kernels::ActivationKind classifier_activation = kernels::ActivationKind::kGeluErf;  // of classifier_norm
  bool classifier_dense_bias = true;

  std::vector<TokenId> eos_token_ids;  // from generation_config.json, else config.json; each < vocab_size

  bool is_encoder() const { return kind == ModelKind::kEncoder; }
  // Layers whose keys and values exist at once: an encoder keeps those of the running layer only.
  int32_t num_kv_layers() const { return is_encoder() ? 1 : num_layers; }
  int32_t position_rows() const { return max_context + position_offset; }
  int32_t num_rotaries() const {
    return rotary_dim == 0 ? 0 : static_cast<int32_t>(inv_freq.size()) / (rotary_dim / 2);
  }
  float rotary_attention_factor(int32_t rotary) const {
    return rotary_attention_factors.empty() ? 1.0F : rotary_attention_factors[static_cast<size_t>(rotary)];
  }
  // What the device holds of the positions: one of the three.
  const std::vector<float>& position_constants() const {
    return rotary_dim > 0 ? inv_freq : key_bias.empty() ? alibi_slopes : key_bias;
  }
  int32_t rotary(int32_t layer) const {
    if (rotary_dim == 0) return -1;
    return layer_rotary.empty() ? 0 : layer_rotary[static_cast<size_t>(layer)];
  }
  bool has_embedding_norm() const { return embedding_norm || norm_placement == NormPlacement::kPost; }
  // Norms whose output is added to the residual.
  bool has_post_norms() const {
    return norm_placement == NormPlacement::kPreAndPost || norm_placement == NormPlacement::kPostInside;
  }
  int32_t window(int32_t layer) const { return layer_windows.empty() ? 0 : layer_windows[static_cast<size_t>(layer)]; }
  bool has_latent_attention() const { return latent.kv_rank > 0; }
  int32_t latent_query_features() const { return num_heads * (latent.plain_dim + latent.rope_dim); }
  // Of the attention itself: a value, of the latent row where it is in the key.
  int32_t attention_value_dim() const { return has_latent_attention() ? latent.kv_rank : head_dim; }
  // Columns of the attention's output projection.
  int32_t attention_features() const { return num_heads * (has_latent_attention() ? latent.value_dim : head_dim); }
  bool has_experts() const { return routing.num_experts > 0; }
  bool has_experts(int32_t layer) const {
    return has_experts() && (dense_layers.empty() || !dense_layers[static_cast<size_t>(layer)]);
  }
  // A gate of the shared expert is the router's last row.
  int32_t router_features() const { return routing.num_experts + (shared_gate ? 1 : 0); }
  // Of the rows that the attention reads; values in keys take no columns of their own.
  int32_t qkv_features() const { return (num_heads + (has_latent_attention() ? 1 : 2) * num_kv_heads) * head_dim; }
  int32_t up_features() const { return up_features(ffn_dim); }
  int32_t up_features(int32_t ffn) const { return gated_mlp ? 2 * ffn : ffn; }
  // The widest MLP of the model.
  int32_t max_ffn_dim() const { return has_experts() ? std::max({ffn_dim, expert_ffn_dim, shared_ffn_dim}) : ffn_dim; }
};

}  // namespace dunlin::engine
