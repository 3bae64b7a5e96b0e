// SPDX-License-Identifier: Apache-2.0
// Configs of two small models, one of each family, for tests that run no arithmetic.
#pragma once

#include "engine/model/model.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

inline ModelConfig SmallGpt2Config() {
  ModelConfig config;
  config.architecture = "gpt2";
  config.num_layers = 2;
  config.hidden_dim = 8;
  config.attention.num_heads = 2;
  config.attention.num_kv_heads = 2;
  config.attention.head_dim = 4;
  config.mlp.ffn_dim = 32;
  config.vocab_size = 100;
  config.max_context = 64;
  config.norm.bias = true;
  config.attention.qkv_bias = config.attention.out_bias = config.mlp.bias = true;
  config.embedding.learned_positions = true;
  config.attention.scale = 0.5F;
  config.eos_token_ids = {0};
  return config;
}

inline ModelConfig SmallLlamaConfig() {
  ModelConfig config;
  config.architecture = "llama";
  config.num_layers = 1;
  config.hidden_dim = 8;
  config.attention.num_heads = 4;
  config.attention.num_kv_heads = 2;
  config.attention.head_dim = 6;
  config.mlp.ffn_dim = 20;
  config.vocab_size = 100;
  config.max_context = 64;
  config.norm.kind = kernels::NormKind::kRmsNorm;
  config.mlp.activation = kernels::ActivationKind::kSilu;
  config.mlp.gated = true;
  config.rotary.dim = 6;
  config.rotary.inv_freq = {1.0F, 0.1F, 0.01F};
  config.attention.scale = 0.5F;
  config.eos_token_ids = {0};
  return config;
}

// SmallLlamaConfig with latent attention: 4 heads of 3 plain and 6 rotated dimensions, whose values have 5.
inline ModelConfig SmallLatentConfig(int32_t query_rank = 0) {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "deepseek_v2";
  config.attention.num_kv_heads = 1;
  config.attention.latent = {.kv_rank = 10, .query_rank = query_rank, .plain_dim = 3, .rope_dim = 6, .value_dim = 5};
  config.attention.head_dim = 16;
  return config;
}

// SmallLatentConfig with queries of a rank, in which a row attends to three keys that the first layer chooses.
inline ModelConfig SmallSparseConfig() {
  ModelConfig config = SmallLatentConfig(7);
  config.architecture = "glm_moe_dsa";
  config.attention.indexer = {.num_heads = 2, .dim = 8, .top_k = 3, .neighbours = true, .shared = {false, true}};
  return config;
}

// SmallLlamaConfig of three layers, of which the first and the last are gated delta nets: 2 key heads of 3, 4 value
// heads of 5, 3 taps. The second has an output gate.
inline ModelConfig SmallDeltaConfig() {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "qwen3_5_text";
  config.num_layers = 3;
  config.mixers = {MixerKind::kDelta, MixerKind::kAttention, MixerKind::kDelta};
  config.delta = {.shape = {.key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 5}, .conv_taps = 3};
  config.attention.output_gate = true;
  return config;
}

// SmallDeltaConfig without a gated output, with a decay in each row of a state and gates by rows of two.
inline ModelConfig SmallChannelDeltaConfig() {
  ModelConfig config = SmallDeltaConfig();
  config.architecture = "kimi_linear";
  config.attention.output_gate = false;
  config.delta.gate_rank = 2;
  return config;
}

// SmallLlamaConfig of three layers, of which the first and the last are gated convolutions of 3 taps.
inline ModelConfig SmallShortConvConfig() {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "lfm2";
  config.num_layers = 3;
  config.mixers = {MixerKind::kShortConv, MixerKind::kAttention, MixerKind::kShortConv};
  config.short_conv = {.channels = config.hidden_dim, .taps = 3};
  return config;
}

// SmallLlamaConfig of four layers of one term each: Mamba2 (4 heads of 5 in 2 groups, states of 3, 3 taps), attention,
// experts (two of three on rows of 6, and a shared one), an MLP.
inline ModelConfig SmallMambaConfig() {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "nemotron_h";
  config.num_layers = 4;
  config.single_terms = true;
  config.mixers = {MixerKind::kMamba, MixerKind::kAttention, MixerKind::kNone, MixerKind::kNone};
  config.mamba.shape = {.num_heads = 4, .num_groups = 2, .head_dim = 5, .state_dim = 3};
  config.mamba.conv_taps = 3;
  config.mlp.gated = false;
  config.experts.routing = {.num_experts = 3, .num_chosen = 2};
  config.experts.ffn_dim = 7;
  config.experts.shared_ffn_dim = 9;
  config.experts.latent_dim = 6;
  config.experts.dense_layers = {true, true, false, true};
  return config;
}

// SmallLlamaConfig with experts in its second layer: a row takes two of three, and a shared one with a gate.
inline ModelConfig SmallExpertsConfig() {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "qwen2_moe";
  config.num_layers = 2;
  config.experts.routing = {.num_experts = 3, .num_chosen = 2};
  config.experts.ffn_dim = 7;
  config.experts.shared_ffn_dim = 9;
  config.experts.shared_gate = true;
  config.experts.dense_layers = {true, false};
  return config;
}

// Weights that have shapes and no memory.
inline PrecisionWeights ShapesOf(const ModelConfig& config, Precision precision, const float* bias) {
  const auto linear = [&](int64_t rows, int64_t columns, bool has_bias) {
    LinearWeights weights;
    weights.weight = {.data = nullptr, .precision = precision, .out_features = rows, .in_features = columns};
    weights.bias = has_bias ? bias : nullptr;
    return weights;
  };
  PrecisionWeights weights;
  weights.embedding = linear(config.vocab_size, config.hidden_dim, false).weight;
  weights.positions = linear(config.max_context, config.hidden_dim, false).weight;
  weights.token_types = linear(config.embedding.num_token_types, config.hidden_dim, false).weight;
  weights.head = linear(config.vocab_size, config.hidden_dim, config.head.bias);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    layer.qkv = linear(config.attention.qkv_features(), config.hidden_dim, config.attention.qkv_bias);
    layer.attention_out = linear(config.hidden_dim, config.attention.output_features(), config.attention.out_bias);
    if (const LatentAttentionSpec& latent = config.attention.latent; config.attention.is_latent()) {
      const int32_t query_inputs = latent.query_rank > 0 ? latent.query_rank : config.hidden_dim;
      layer.latent.query_down = linear(latent.query_rank, config.hidden_dim, config.attention.qkv_bias);
      layer.latent.query = linear(config.attention.latent_query_features(), query_inputs, false);
      layer.latent.kv_down = linear(config.attention.head_dim, config.hidden_dim, config.attention.qkv_bias);
      layer.latent.key_up.assign(static_cast<size_t>(config.attention.num_heads),
                                 linear(latent.kv_rank, latent.plain_dim, false));
      layer.latent.value_up.assign(static_cast<size_t>(config.attention.num_heads),
                                   linear(latent.value_dim, latent.kv_rank, false));
      const IndexerSpec& indexer = config.attention.indexer;
      layer.indexer = {.query = linear(indexer.query_features(), latent.query_rank, false),
                       .query_norm = {},
                       .key = linear(indexer.dim, config.hidden_dim, false),
                       .key_norm = {},
                       .weights = linear(indexer.num_heads, config.hidden_dim, false)};
    }
    layer.attention_gate = linear(config.attention.gate_features(0), config.hidden_dim, false);
    if (config.mixer(i) == MixerKind::kDelta) {
      layer.delta.in = linear(config.delta.input_features(), config.hidden_dim, false);
      layer.delta.gates = linear(config.delta.gate_features(), config.hidden_dim, false);
      layer.delta.decay = linear(config.delta.decay_features(), config.delta.gate_rank, false);
      layer.delta.z = linear(config.delta.output_features(), config.delta.gate_rank, false);
      layer.delta.out = linear(config.hidden_dim, config.delta.output_features(), false);
    }
    if (config.mixer(i) == MixerKind::kShortConv) {
      layer.short_conv.in = linear(config.short_conv.input_features(), config.hidden_dim, config.short_conv.bias);
      layer.short_conv.out = linear(config.hidden_dim, config.short_conv.channels, config.short_conv.bias);
    }
    if (config.mixer(i) == MixerKind::kMamba) {
      layer.mamba.in = linear(config.mamba.input_features(), config.hidden_dim, false);
      layer.mamba.out = linear(config.hidden_dim, config.mamba.output_features(), false);
    }
    layer.mlp_up = linear(config.mlp.up_features(), config.hidden_dim, config.mlp.bias);
    layer.mlp_down = linear(config.hidden_dim, config.mlp.ffn_dim, config.mlp.bias);
    if (config.experts.in_layer(i)) {
      const auto expert = [&](int32_t width, int32_t rows) {
        return ExpertWeights{linear(config.mlp.up_features(width), rows, config.experts.bias),
                             linear(rows, width, config.experts.bias)};
      };
      layer.latent_in = linear(config.experts.latent_dim, config.hidden_dim, false);
      layer.latent_out = linear(config.hidden_dim, config.experts.latent_dim, false);
      layer.router = linear(config.experts.router_features(), config.hidden_dim, config.experts.router_bias);
      layer.router.weight.precision = Precision::kFp32;
      const auto num_experts = static_cast<size_t>(config.experts.routing.num_experts);
      layer.experts.up.assign(num_experts, expert(config.experts.ffn_dim, config.expert_dim()).up);
      layer.experts.down.assign(num_experts, expert(config.experts.ffn_dim, config.expert_dim()).down);
      layer.shared_expert = expert(config.experts.shared_ffn_dim, config.hidden_dim);
    }
    if (config.attention.qk_norm) layer.query_norm.weight = layer.key_norm.weight = bias;
  }
  return weights;
}

}  // namespace dunlin::engine
