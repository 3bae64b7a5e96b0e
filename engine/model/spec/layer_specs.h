// SPDX-License-Identifier: Apache-2.0
// The parts of a transformer's layer as data: norms, attention, rotary positions, MLP and experts. An architecture's
// ParseConfig fills and checks them; layers and weight slots trust them. Limits: model_limits.h. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/model/spec/compressed_spec.h"
#include "engine/model/spec/indexer_spec.h"
#include "kernels/api/experts.h"
#include "kernels/api/layer_ops.h"
#include "kernels/api/recurrent.h"
#include "kernels/api/ssm_scan.h"

namespace dunlin::engine {

// Where the norms of a layer x += F(x) stand; F is the attention or the MLP.
enum class NormPlacement : uint8_t {
  kPre,         // x += F(Norm(x)); a norm before the head
  kPost,        // x = Norm(x + F(x)); a norm after the embeddings, none before the head (Vaswani et al. 2017, BERT)
  kPreAndPost,  // x += PostNorm(F(Norm(x))); a norm before the head (Gemma 2)
  kPostInside,  // x += PostNorm(F(x)); a norm before the head (EXAONE 4)
};

// All norms over hidden_dim, and those of queries and keys, which are RMSNorm without bias whatever `kind` is.
struct NormSpec {
  kernels::NormKind kind = kernels::NormKind::kLayerNorm;
  float epsilon = 1e-5F;  // > 0
  bool bias = false;
  NormPlacement placement = NormPlacement::kPre;
  // [num_layers] that are kPre where `placement`, kPostInside, is that of the others (OLMo Hybrid); else empty.
  std::vector<bool> pre_layers;
  float weight_offset = 0.0F;  // added to every norm weight at load (Gemma stores w and means 1 + w)
  bool final_offset = true;    // to that of the norm before the head, too
  float post_epsilon = 0.0F;   // of the norms that has_post() names; 0: epsilon
  bool first_absent = false;   // the attention of layer 0 reads the rows as they are; kPre without `shared`
  bool shared = false;         // the MLP reads Norm1's output and there is no Norm2; with parallel_residual only

  // Norms whose output is added to the residual.
  bool has_post() const { return placement == NormPlacement::kPreAndPost || placement == NormPlacement::kPostInside; }
  NormPlacement placement_of(int32_t layer) const {
    return !pre_layers.empty() && pre_layers[static_cast<size_t>(layer)] ? NormPlacement::kPre : placement;
  }
  bool has_post(int32_t layer) const { return has_post() && placement_of(layer) != NormPlacement::kPre; }
};

// Multi-head latent attention (DeepSeek V2): keys and values of all heads are linear in one latent row of a token. A
// page holds that row, [rope_dim rotated, kv_rank normed], as the one KV head; the heads' key matrices are applied to
// the queries before the attention and their value matrices to its sums. All in elements of a row or a head.
struct LatentAttentionSpec {
  int32_t kv_rank = 0;     // of the latent row; 0: the model has no such attention
  int32_t query_rank = 0;  // 0: queries are computed from the hidden row itself
  int32_t plain_dim = 0;   // of a head's query and key, without positions
  int32_t rope_dim = 0;    // of a head's query and of the key that all heads share, rotated; even
  int32_t value_dim = 0;   // of a head's value
};

inline constexpr size_t kMaxHeadShapes = 2;  // of a model's layers

// The heads of a layer's attention.
struct HeadShape {
  int32_t num_heads = 0;     // 1 to kMaxHeads
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // 1 to kMaxHeadDim; need not be hidden_dim / num_heads

  friend bool operator==(const HeadShape&, const HeadShape&) = default;
};

// num_heads, num_kv_heads and head_dim are HeadShape's, of all layers or of those with the widest heads.
struct AttentionSpec {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  // Of heads of V in checkpoints, narrower than those of Q and K: at load zeros follow them, and columns of zeros those
  // of the output projection; 0: head_dim.
  int32_t stored_value_dim = 0;
  std::vector<HeadShape> layer_heads;  // [num_layers] where layers differ, at most kMaxHeadShapes of them; else empty
  float scale = 0.0F;                  // multiplies Q K^T
  float softcap = 0.0F;                // scaled scores become cap * tanh(score / cap); 0: no cap
  bool causal = true;  // a token attends to itself and the tokens before it; false: to every token of its input
  bool sinks = false;  // PagedAttentionParams::sinks
  std::vector<bool> sink_layers;  // [num_layers] with sinks: the layers that have them; empty: all
  bool qkv_bias = false;
  bool out_bias = false;
  bool output_gate = false;           // each head's output is multiplied by sigmoid(gate x); latent: with head_gate
  bool head_gate = false;             // with output_gate: a head has one gate, not one for each of its elements
  bool qk_norm = false;               // RMSNorm over each head of Q and K, before the rotation
  bool qk_norm_joint = false;         // with qk_norm: one RMSNorm over all heads of Q, and one over all of K
  bool norms_after_rotation = false;  // those of heads of Q and K
  bool norms_of_rotated = false;      // layers without positions have none of these norms
  float fixed_query_norm = 0.0F;    // with qk_norm, > 0: all weights for Q are this, all for K 1; checkpoints have none
  bool value_norm = false;          // RMSNorm without a weight over each head of V
  std::vector<int32_t> kv_sources;  // [num_layers] whose K and V a layer reads: its own or an earlier one's; empty: own
  std::vector<bool> keys_as_values;  // [num_layers] V is what K is before its norm and rotation; empty: in none
  // A token's queries take the factor 1 + beta * ln(1 + (position + offset) / period); a beta of 0: none. Ministral 3's
  // do in all layers, Llama 4's in those without positions.
  float query_scale_beta = 0.0F;
  int32_t query_scale_period = 1;  // tokens
  int32_t query_scale_offset = 0;
  bool query_scale_unrotated = false;
  // GPT-2's scale_attn_by_inverse_layer_idx: 1 / (layer + 1), folded into the query rows at load.
  bool inverse_layer_scale = false;
  // [num_layers] keys that a token sees, its own the last or, where not causal, in the middle of an odd number; 0 or
  // empty: all.
  std::vector<int32_t> layer_windows;
  // A layer's window is the size of chunks of positions, a multiple of the tokens of a page: a token sees the keys of
  // its own chunk (Llama 4). With causal.
  bool chunked_windows = false;
  std::vector<float> alibi_slopes;  // [num_heads] of ALiBi's bias by distance, without rotary positions; empty: none
  // [num_heads, max_context] added to a scaled score by the position of the key (Falcon's ALiBi), without rotary
  // positions; empty: none.
  std::vector<float> key_bias;
  // With it num_kv_heads is 1, head_dim rope_dim + kv_rank, and RotarySpec::dim rope_dim.
  LatentAttentionSpec latent;
  IndexerSpec indexer;                 // by blocks; with `latent`, whose query_rank is not 0; of `compressed`'s entries
  CompressedAttentionSpec compressed;  // with it num_kv_heads is 1, and RotarySpec::dim rope_dim

  bool is_latent() const { return latent.kv_rank > 0; }
  bool is_compressed() const { return compressed.rope_dim > 0; }
  // Of tokens' keys.
  bool has_indexer() const { return indexer.top_k > 0 && !is_compressed(); }
  // Whether a token's key is its value.
  bool values_in_keys() const { return is_latent() || is_compressed(); }
  // Of a group of heads that the output projection takes at once.
  int32_t out_group_features() const { return is_compressed() ? query_features() / compressed.out_groups : 0; }
  // Elements that a token leaves in its page for entries, and those of an entry.
  int32_t compressed_row_features(int32_t layer) const {
    if (compressed.rate(layer) == 0) return 0;
    return 2 * compressed.series(layer) * entry_dim(layer);
  }
  int32_t entry_dim(int32_t layer) const { return head_dim + (compressed.chooses_in(layer) ? indexer.dim : 0); }
  // Keys and entries of a row at most, of a context; 0: no layer chooses or has entries.
  int32_t gathered_keys(int32_t context) const {
    if (!is_compressed()) return indexer.top_k;
    int32_t entries = 0;
    for (size_t i = 0; i < compressed.rates.size(); ++i) {
      if (compressed.rates[i] == 0) continue;
      const int32_t all = context / compressed.rates[i];
      entries = std::max(entries, compressed.chooses[i] ? std::min(all, indexer.top_k) : all);
    }
    return layer_windows.front() + entries;
  }
  // The keys before the next token, its own among them, whose pages a layer keeps: of its window, or of the tokens of
  // unfinished entries; 0: all.
  int32_t kept_tokens(int32_t layer) const {
    return window(layer) == 0 ? 0 : std::max(window(layer), compressed.series(layer) * compressed.rate(layer));
  }
  // Whether a layer chooses keys itself; whether its rows attend to chosen keys alone.
  bool has_indexer(int32_t layer) const { return has_indexer() && !indexer.is_shared(layer) && selects(layer); }
  bool selects(int32_t layer) const { return has_indexer() && !indexer.is_dense(layer); }
  int32_t window(int32_t layer) const { return layer_windows.empty() ? 0 : layer_windows[static_cast<size_t>(layer)]; }
  // Positions of a chunk; 0: the layer has none.
  int32_t chunk(int32_t layer) const { return chunked_windows ? window(layer) : 0; }
  // Whether a layer's queries take a factor by position; rotates: it has positions.
  bool scales_queries(bool rotates) const { return query_scale_beta > 0.0F && !(query_scale_unrotated && rotates); }
  HeadShape heads(int32_t layer) const {
    if (layer_heads.empty()) return {num_heads, num_kv_heads, head_dim};
    return layer_heads[static_cast<size_t>(layer)];
  }
  bool has_keys_as_values(int32_t layer) const {
    return !keys_as_values.empty() && keys_as_values[static_cast<size_t>(layer)];
  }
  // The layer whose keys and values it reads.
  int32_t kv_source(int32_t layer) const { return kv_sources.empty() ? layer : kv_sources[static_cast<size_t>(layer)]; }
  bool has_sinks(int32_t layer) const {
    return sinks && (sink_layers.empty() || sink_layers[static_cast<size_t>(layer)]);
  }
  bool stores_kv(int32_t layer) const { return kv_source(layer) == layer; }
  int32_t latent_query_features() const { return num_heads * (latent.plain_dim + latent.rope_dim); }
  // Of the attention itself: a value, of the latent row where it is in the key.
  int32_t value_dim() const { return is_latent() ? latent.kv_rank : head_dim; }
  // Of a layer or, without one, of the layer that has most. Columns of the queries.
  int32_t query_features(int32_t layer) const { return heads(layer).num_heads * heads(layer).head_dim; }
  int32_t query_features() const { return MostOf(&AttentionSpec::query_features); }
  // Columns of an output gate.
  int32_t gate_features(int32_t layer) const { return head_gate ? heads(layer).num_heads : query_features(layer); }
  // Columns of what the attention gives.
  int32_t sum_features() const { return is_latent() ? num_heads * value_dim() : query_features(); }
  // Columns of the output projection.
  int32_t output_features(int32_t layer) const {
    if (is_compressed()) return compressed.out_features();
    return is_latent() ? num_heads * latent.value_dim : query_features(layer);
  }
  int32_t output_features() const { return MostOf(&AttentionSpec::output_features); }
  // Of the rows that the attention reads; values in keys, and keys and values of another layer, take no columns.
  int32_t qkv_features(int32_t layer) const {
    if (!stores_kv(layer)) return query_features(layer);
    const HeadShape shape = heads(layer);
    return (shape.num_heads + (values_in_keys() ? 1 : 2) * shape.num_kv_heads) * shape.head_dim;
  }
  int32_t qkv_features() const { return MostOf(&AttentionSpec::qkv_features); }

 private:
  int32_t MostOf(int32_t (AttentionSpec::*features)(int32_t) const) const {
    int32_t most = (this->*features)(0);
    for (size_t i = 1; i < layer_heads.size(); ++i) most = std::max(most, (this->*features)(static_cast<int32_t>(i)));
    return most;
  }
};

// What mixes the tokens of a layer.
enum class MixerKind : uint8_t {
  kAttention,  // over the keys and values of earlier tokens, in pages
  kDelta,      // a gated delta net, over a state of the sequence
  kShortConv,  // a gated convolution over the last few tokens, which are the sequence's state
  kMamba,      // Mamba2, over a state of the sequence
  kParallel,   // attention and Mamba2 of the same rows, whose outputs are both added
  kNone,       // nothing: of ModelConfig::single_terms, a layer that is its MLP
};

// Gated delta nets (kernels/api/recurrent.h): Out(RMSNorm(scan) * SiLU(z)), z from the layer's input as queries, keys
// and values are. With gate_rank (Kimi Linear) each row of a state has a decay of its own, and the output is
// Out(RMSNorm(scan) * sigmoid(z)); decays and z are each two products of the layer's input, with rows of gate_rank
// between them. All in elements of a row or a head.
struct DeltaSpec {
  kernels::DeltaShape shape;    // key_heads 0: no layer is one
  int32_t conv_taps = 0;        // 2 to kConvTapsMax
  int32_t gate_rank = 0;        // 0: a decay of each head, and z is of the fused projection
  bool channel_decays = false;  // with gate_rank 0 (Ling 3): a decay of each row of a state, by one product
  float decay_bound = 0.0F;     // DeltaScanParams::decay_bound, of decays of rows
  bool log_rates = true;        // checkpoints hold the logarithm of DeltaScanParams::rate; else the rate times -1
  bool signed_states = false;   // DeltaScanParams::beta_scale is 2
  float norm_epsilon = 0.0F;    // of the norm of the scan's heads; 0: NormSpec::epsilon

  int32_t channels() const { return shape.channels(); }
  // Columns of the output projection.
  int32_t output_features() const { return shape.value_features(); }
  // Of the fused input projection: queries, keys, values, z.
  int32_t input_features() const { return channels() + (gate_rank > 0 ? 0 : output_features()); }
  bool decays_by_channel() const { return gate_rank > 0 || channel_decays; }  // a sigmoid gates the output then
  // Of the decays that the scan computes.
  int32_t decay_features() const { return shape.value_heads * (decays_by_channel() ? shape.key_dim : 1); }
  // Of the projection to b and, of each head, a, or, with gate_rank, the rows between the products of decays and z.
  int32_t gate_features() const { return (decays_by_channel() ? 1 : 2) * shape.value_heads + 2 * gate_rank; }
  // FP32 of a sequence in a layer: the last rows before the convolution, then the heads' states.
  int64_t conv_state_floats() const { return int64_t{conv_taps - 1} * channels(); }
  int64_t state_floats() const { return conv_state_floats() + shape.value_heads * kernels::DeltaHeadFloats(shape); }
};

// Gated short convolutions (LFM2): Out(C * conv(B * x)), where the input projection has B, C and x, each `channels`
// wide, in this order.
struct ShortConvSpec {
  int32_t channels = 0;  // hidden_dim; 0: no layer is one
  int32_t taps = 0;      // 2 to kConvTapsMax
  bool bias = false;     // of both projections and of the convolution

  int32_t input_features() const { return 3 * channels; }
  // FP32 of a sequence in a layer: the last rows of B * x.
  int64_t state_floats() const { return int64_t{taps - 1} * channels; }
};

// What Mamba2's scan goes through before its output projection, z the gate; norms over the features of each group.
enum class MambaNorm : uint8_t {
  kAfterGate,   // RMSNorm(scan * SiLU(z)) * weight
  kBeforeGate,  // RMSNorm(scan) * weight * SiLU(z)
  kNone,        // scan * SiLU(z)
};

// Mamba2 layers (kernels/api/ssm_scan.h). The fused projection gives z, the convolution's x, B and C, and a step of
// each head.
struct MambaSpec {
  kernels::SsmShape shape;  // num_heads 0: no layer is one
  int32_t conv_taps = 0;    // 2 to kConvTapsMax
  bool conv_bias = false;
  bool bias = false;  // of the input and the output projection
  MambaNorm norm = MambaNorm::kAfterGate;
  float step_min = 0.0F;  // SsmScanParams, as step_max
  float step_max = std::numeric_limits<float>::infinity();
  bool log_rates = true;  // checkpoints hold the logarithm of SsmScanParams::rate; else the rate times -1

  int32_t channels() const { return shape.channels(); }
  // Columns of the output projection.
  int32_t output_features() const { return shape.features(); }
  // Of the input projection.
  int32_t input_features() const { return output_features() + channels() + shape.num_heads; }
  // FP32 of a sequence in a layer: the last rows before the convolution, then the heads' states.
  int64_t conv_state_floats() const { return int64_t{conv_taps - 1} * channels(); }
  int64_t state_floats() const { return conv_state_floats() + shape.num_heads * kernels::SsmHeadFloats(shape); }
};

// Factors of what a layer's products give (Falcon-H1), folded into the rows of their matrices at load. Models with
// factors other than 1 have no biases.
struct ProductFactors {
  float query = 1.0F;
  float key = 1.0F;
  float value = 1.0F;
  float attention_out = 1.0F;
  std::array<float, 5> mamba_in = {1.0F, 1.0F, 1.0F, 1.0F, 1.0F};  // z, x, B, C, steps
  float mamba_out = 1.0F;
  float mlp_gate = 1.0F;
  float mlp_down = 1.0F;
};

// What turns a pair of dimensions: a token's place in the sequence or, of a token of an image, its row or its column.
enum class RotationAxis : uint8_t { kSequence, kRow, kColumn };

// Rotary positions (Su et al. 2021), of one or several lists of frequencies.
struct RotarySpec {
  int32_t dim = 0;              // dimensions of a head that rotate, its first; even, <= head_dim; 0: none
  std::vector<int32_t> dims;    // [count] where lists rotate different ones, of which `dim` is the most; else empty
  std::vector<float> inv_freq;  // [count, dim / 2] radians per position, the scaling (linear, ...) already applied
  std::vector<float> attention_factors;  // [count] multiplies cos and sin (yarn, longrope); empty: 1
  std::vector<int8_t> layer_index;       // [num_layers] list of a layer, -1: no positions; empty: all have list 0
  // Pairs of dimensions (2i, 2i + 1) rotate together, not (i, i + dim / 2): rows of Q and K change places at load.
  bool interleaved = false;
  // [dim / 2] with one list, which all layers have (Qwen 2 VL and later); empty: images rotate as texts do.
  std::vector<RotationAxis> axes;

  int32_t count() const {
    if (!dims.empty()) return static_cast<int32_t>(dims.size());
    return dim == 0 ? 0 : static_cast<int32_t>(inv_freq.size()) / (dim / 2);
  }
  int32_t dim_of(int32_t list) const { return dims.empty() ? dim : dims[static_cast<size_t>(list)]; }
  // Dimensions of the lists before this one, of a token.
  int32_t dims_before(int32_t list) const {
    return dims.empty() ? list * dim : std::accumulate(dims.begin(), dims.begin() + list, 0);
  }
  float attention_factor(int32_t list) const {
    return attention_factors.empty() ? 1.0F : attention_factors[static_cast<size_t>(list)];
  }
  int32_t index(int32_t layer) const {
    if (dim == 0) return -1;
    return layer_index.empty() ? 0 : layer_index[static_cast<size_t>(layer)];
  }
};

// Down(Activation(Up(x))) or, gated, Down(Activation(Gate(x)) * Up(x)).
struct MlpSpec {
  int32_t ffn_dim = 0;              // 1 to kMaxFfnDim
  std::vector<int32_t> layer_dims;  // [num_layers] of each where they differ, of which ffn_dim is the most; else empty
  kernels::ActivationKind activation = kernels::ActivationKind::kGeluTanh;
  bool learned_curve = false;  // in place of `activation`, not gated: xIELU of four numbers that each layer has
  bool gated = false;          // the up matrix is [2 * ffn_dim, hidden_dim], gate rows first
  bool bias = false;
  // [num_layers] ActivateParams::limit of the MLPs and the shared experts, 0: none; empty: none in any layer. With
  // gated
  std::vector<float> limits;
  bool cuts_before = false;  // ActivateParams'; of the experts, too

  float limit(int32_t layer) const { return limits.empty() ? 0.0F : limits[static_cast<size_t>(layer)]; }
  int32_t dim_of(int32_t layer) const { return layer_dims.empty() ? ffn_dim : layer_dims[static_cast<size_t>(layer)]; }
  int32_t up_features() const { return up_features(ffn_dim); }
  int32_t up_features(int32_t ffn) const { return gated ? 2 * ffn : ffn; }
};

// Per-layer embeddings (Gemma 4 E): a token has a row of its own for each layer, r = (Table[token] * scale +
// RMSNorm(Projection(x0))) / sqrt(2) of `width` numbers, x0 its embedding. After the MLP a layer adds
// PostNorm(Out(Activation(Gate(x)) * r)), with MlpSpec's activation.
struct LayerInputSpec {
  int32_t width = 0;       // of a layer, up to hidden_dim; 0: no such inputs
  int32_t vocab_size = 0;  // rows of the table, >= the model's
  float scale = 1.0F;      // rounded to the dtype that the model runs in
};

// Mixtures of experts: in place of its MLP a layer has a router, experts and, where shared_ffn_dim > 0, one expert
// more that every token takes. All of them are MLPs with MlpSpec's activation and gate.
struct ExpertSpec {
  kernels::ExpertRouting routing;  // num_experts <= kMaxExperts; 0: every layer has the one MLP
  int32_t ffn_dim = 0;             // of an expert
  int32_t shared_ffn_dim = 0;
  bool shared_gate = false;        // the shared expert's output is multiplied by sigmoid(gate x)
  bool bias = false;               // of the matrices of the experts
  bool router_bias = false;        // of the router's logits
  bool router_correction = false;  // RouteExpertsParams::correction
  // A row's one expert (num_chosen is 1) reads it times its weight, and what that gives is not weighted (Llama 4).
  bool scaled_inputs = false;
  // Elements of the rows that the experts but the shared one read and write, between two projections that all of a
  // layer share; 0: hidden_dim, without projections.
  int32_t latent_dim = 0;
  // Gemma 4: a layer has its MLP as well. The experts read the same rows through a norm of their own, the router
  // through another; what either gives is normed, and their sum goes through the post norm. Each expert has a scale of
  // its own.
  bool beside_mlp = false;
  std::vector<float> limits;       // as MlpSpec's, of the experts but the shared one
  std::vector<bool> by_token;      // [num_layers] layers whose experts a table chooses by token; empty: none
  std::vector<bool> dense_layers;  // [num_layers] layers with one MLP of MlpSpec::ffn_dim; empty: none

  bool chooses_by_token(int32_t layer) const { return !by_token.empty() && by_token[static_cast<size_t>(layer)]; }
  bool in_layer(int32_t layer) const {
    return routing.num_experts > 0 && (dense_layers.empty() || !dense_layers[static_cast<size_t>(layer)]);
  }
  float limit(int32_t layer) const { return limits.empty() ? 0.0F : limits[static_cast<size_t>(layer)]; }
  // A gate of the shared expert is the router's last row.
  int32_t router_features() const { return routing.num_experts + (shared_gate ? 1 : 0); }
};

}  // namespace dunlin::engine
