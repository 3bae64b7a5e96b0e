// SPDX-License-Identifier: Apache-2.0
// A transformer described as data, so that an architecture is one file and one row of a table: specs of its parts and
// what holds for the whole model. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/spec/image_spec.h"
#include "engine/model/spec/layer_specs.h"
#include "engine/model/spec/rank_part.h"
#include "engine/request/types.h"
#include "kernels/api/residual_streams.h"

namespace dunlin::engine {

// Decoders generate tokens; encoders return hidden states, those of images what their projector makes of them.
enum class ModelKind : uint8_t { kDecoder, kEncoder };

// The row of a token that enters layer 0: its embedding * scale + position + token type, normed with `norm`.
struct EmbeddingSpec {
  float scale = 1.0F;              // rounded to the dtype that the model runs in
  bool norm = false;               // a norm after the embeddings; always with NormPlacement::kPost
  bool fixed_norm = false;         // with norm: all its weights are 1, and checkpoints have none
  bool learned_positions = false;  // a [position_rows, hidden_dim] table added to the embedding
  int32_t position_offset = 0;     // row of a sequence's first position (RoBERTa: padding_idx + 1)
  TokenId position_pad_id = -1;    // this token takes row position_offset - 1 and no position; -1: no such token
  int32_t num_token_types = 0;     // rows of a table, of which one is added to every embedding; 0: none
};

// A decoder's logits, [vocab_size].
struct HeadSpec {
  bool tied = false;  // the matrix is the embedding
  bool bias = false;
  float scale = 1.0F;    // multiplies logits; folded into the final norm at load
  float softcap = 0.0F;  // logits become cap * tanh(logits / cap); 0: no cap
};

// An encoder's head of a sequence classifier: logits = Out(tanh(Dense(row))) or, with `norm`,
// Out(Norm(activation(Dense(row)))). The row is the hidden state of the first token or, with `mean`, the mean of all
// tokens'.
struct ClassifierSpec {
  int32_t num_labels = 0;  // 0: none
  bool mean = false;
  bool norm = false;
  kernels::ActivationKind activation = kernels::ActivationKind::kGeluErf;  // with norm
  bool dense_bias = true;
};

// A layer that predicts further tokens, where those of the model differ.
struct PredictorSpec {
  int32_t like_layer = -1;    // a layer with its heads, window and rotation; -1: all layers have them
  bool dense = false;         // of a model with experts: an MLP
  float mlp_limit = 0.0F;     // MlpSpec::limits of it
  float expert_limit = 0.0F;  // ExpertSpec::limits of it
  bool own_head = false;      // the matrix of its head is its own, not the model's
  bool unnormed = false;      // it reads hidden rows before the model's final norm, not after it
};

// Filled and cross-checked by an architecture's ParseConfig; the forward pass trusts it.
// A layer: x += OutProjection(Attention(Norm1(x))); x += Down(Activation(Up(Norm2(x)))), norms as NormSpec says.
// parallel_residual: both terms are computed from the x before the layer.
struct ModelConfig {
  std::string architecture;  // Architecture::name: "gpt2", "llama", ...; of a multimodal model its model_type
  bool text_part = false;    // of a multimodal model, whose other parts are not served
  ModelKind kind = ModelKind::kDecoder;

  int32_t num_layers = 0;  // 1 to kMaxLayers
  // Layers behind these that predict further tokens and are loaded: 0 or 1. Lists by layer have entries for them, too.
  int32_t num_predictors = 0;
  PredictorSpec predictor;
  int32_t hidden_dim = 0;   // 1 to kMaxHiddenDim
  int32_t vocab_size = 0;   // rows of the embedding; 0: it reads patches of images
  int32_t max_context = 0;  // tokens, or patches of an image, 1 to kMaxContextTokens

  EmbeddingSpec embedding;
  NormSpec norm;
  AttentionSpec attention;
  DeltaSpec delta;
  ShortConvSpec short_conv;
  MambaSpec mamba;
  std::vector<MixerKind> mixers;  // [num_layers]; empty: all attend. With Mamba2 alone none may
  RotarySpec rotary;
  MlpSpec mlp;
  ExpertSpec experts;
  bool parallel_residual = false;
  bool single_terms = false;    // a layer is one term, x += F(Norm(x)): what mixes its tokens or, with kNone, its MLP
  float residual_scale = 1.0F;  // of what attention and MLP add; folded into their last matrices at load
  ProductFactors factors;
  LayerInputSpec layer_inputs;
  StreamSpec streams;         // with NormPlacement::kPre
  bool layer_factor = false;  // a layer's rows are multiplied by a number of its own at its end; with post norms
  HeadSpec head;
  ClassifierSpec classifier;
  ImageSpec image;

  // Of a model that is divided among ranks (rank_config.h): the heads and the widths of MLPs above are a rank's, all
  // other dimensions the model's.
  int32_t rank = 0;
  int32_t num_ranks = 1;
  std::shared_ptr<const ModelConfig> whole;  // the undivided model; null: it is this one

  std::vector<TokenId> eos_token_ids;  // from generation_config.json, else config.json; each < vocab_size

  const ModelConfig& undivided() const { return whole != nullptr ? *whole : *this; }
  // The rank's part of a dimension of the undivided model.
  RankPart part(int32_t total) const { return PartOf(total, rank, num_ranks); }
  bool is_encoder() const { return kind == ModelKind::kEncoder; }
  bool is_image_encoder() const { return image.patch_size > 0; }
  int32_t all_layers() const { return num_layers + num_predictors; }
  bool predicts(int32_t layer) const { return layer >= num_layers; }
  MixerKind mixer(int32_t layer) const {
    return mixers.empty() ? MixerKind::kAttention : mixers[static_cast<size_t>(layer)];
  }
  bool attends(int32_t layer) const {
    return mixer(layer) == MixerKind::kAttention || mixer(layer) == MixerKind::kParallel;
  }
  bool has_mamba(int32_t layer) const {
    return mixer(layer) == MixerKind::kMamba || mixer(layer) == MixerKind::kParallel;
  }
  // Whether layers have attention and Mamba2 at once.
  bool is_parallel() const { return std::find(mixers.begin(), mixers.end(), MixerKind::kParallel) != mixers.end(); }
  // FP32 of a sequence's state in a layer; 0: the layer is not recurrent.
  int64_t layer_state_floats(int32_t layer) const {
    switch (mixer(layer)) {
      case MixerKind::kAttention:
      case MixerKind::kNone:
        return 0;
      case MixerKind::kDelta:
        return delta.state_floats();
      case MixerKind::kShortConv:
        return short_conv.state_floats();
      case MixerKind::kMamba:
      case MixerKind::kParallel:
        return mamba.state_floats();
    }
    return 0;
  }
  // A sequence's state is those of its recurrent layers, one after another: where that of a layer begins.
  int64_t state_offset(int32_t layer) const {
    int64_t floats = 0;
    for (int32_t i = 0; i < layer; ++i) floats += layer_state_floats(i);
    return floats;
  }
  int64_t state_floats() const { return mixers.empty() ? 0 : state_offset(num_layers); }
  int32_t num_recurrent_layers() const {
    return static_cast<int32_t>(std::count_if(mixers.begin(), mixers.end(), [](MixerKind mixer_kind) {
      return mixer_kind != MixerKind::kAttention && mixer_kind != MixerKind::kNone;
    }));
  }
  bool has_mlp(int32_t layer) const { return !single_terms || mixer(layer) == MixerKind::kNone; }
  // Whether a sequence has a state in addition to its keys and values.
  bool is_recurrent() const { return num_recurrent_layers() > 0; }
  // Layers whose keys and values exist at once: an encoder keeps those of the running layer only.
  int32_t num_kv_layers() const {
    if (is_encoder() || mixers.empty()) return is_encoder() ? 1 : all_layers();
    return static_cast<int32_t>(std::count_if(mixers.begin(), mixers.end(), [](MixerKind mixer_kind) {
      return mixer_kind == MixerKind::kAttention || mixer_kind == MixerKind::kParallel;
    }));
  }
  // The last layer with keys and values, or a state, of its own: what follows it reads of each row that row alone.
  int32_t last_storing_layer() const {
    int32_t layer = num_layers - 1;
    while (layer > 0 && !attention.stores_kv(layer)) --layer;
    return layer;
  }
  int32_t position_rows() const { return max_context + embedding.position_offset; }
  // What the device holds of the positions: one of the three.
  const std::vector<float>& position_constants() const {
    return rotary.dim > 0 ? rotary.inv_freq : attention.key_bias.empty() ? attention.alibi_slopes : attention.key_bias;
  }
  bool has_embedding_norm() const { return embedding.norm || norm.placement == NormPlacement::kPost; }
  bool has_streams() const { return streams.count > 0; }
  // Columns of the product that the mixing weights of a term are made of.
  int32_t stream_mixes() const { return streams.count + kernels::StreamWeights(streams.count); }
  bool has_layer_inputs() const { return layer_inputs.width > 0; }
  // Columns of the inputs of all layers.
  int32_t layer_input_features() const { return num_layers * layer_inputs.width; }
  bool has_experts() const { return experts.routing.num_experts > 0; }
  // Columns that a layer's first products and the rows before its output projection have at most.
  int32_t max_mixer_inputs() const {
    if (is_parallel()) return attention.qkv_features() + mamba.input_features();
    return std::max(
        {attention.qkv_features(), delta.input_features(), mamba.input_features(), short_conv.input_features()});
  }
  int32_t max_mixer_outputs() const {
    return std::max({attention.sum_features(), delta.output_features(), mamba.output_features(), short_conv.channels});
  }
  // Of the rows that experts read and write.
  int32_t expert_dim() const { return experts.latent_dim > 0 ? experts.latent_dim : hidden_dim; }
  // The widest MLP of the model.
  int32_t max_ffn_dim() const {
    return has_experts() ? std::max({mlp.ffn_dim, experts.ffn_dim, experts.shared_ffn_dim}) : mlp.ffn_dim;
  }
};

}  // namespace dunlin::engine
