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
  config.num_heads = 2;
  config.num_kv_heads = 2;
  config.head_dim = 4;
  config.ffn_dim = 32;
  config.vocab_size = 100;
  config.max_context = 64;
  config.norm_bias = true;
  config.qkv_bias = config.out_bias = config.mlp_bias = true;
  config.learned_positions = true;
  config.attention_scale = 0.5F;
  config.eos_token_ids = {0};
  return config;
}

inline ModelConfig SmallLlamaConfig() {
  ModelConfig config;
  config.architecture = "llama";
  config.num_layers = 1;
  config.hidden_dim = 8;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 6;
  config.ffn_dim = 20;
  config.vocab_size = 100;
  config.max_context = 64;
  config.norm_kind = kernels::NormKind::kRmsNorm;
  config.activation = kernels::ActivationKind::kSilu;
  config.gated_mlp = true;
  config.rotary_dim = 6;
  config.inv_freq = {1.0F, 0.1F, 0.01F};
  config.attention_scale = 0.5F;
  config.eos_token_ids = {0};
  return config;
}

// SmallLlamaConfig with latent attention: 4 heads of 3 plain and 6 rotated dimensions, whose values have 5.
inline ModelConfig SmallLatentConfig(int32_t query_rank = 0) {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "deepseek_v2";
  config.num_kv_heads = 1;
  config.latent = {.kv_rank = 10, .query_rank = query_rank, .plain_dim = 3, .rope_dim = 6, .value_dim = 5};
  config.head_dim = 16;
  return config;
}

// SmallLlamaConfig with experts in its second layer: a row takes two of three, and a shared one with a gate.
inline ModelConfig SmallExpertsConfig() {
  ModelConfig config = SmallLlamaConfig();
  config.architecture = "qwen2_moe";
  config.num_layers = 2;
  config.routing = {.num_experts = 3, .num_chosen = 2};
  config.expert_ffn_dim = 7;
  config.shared_ffn_dim = 9;
  config.shared_gate = true;
  config.dense_layers = {true, false};
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
  weights.token_types = linear(config.num_token_types, config.hidden_dim, false).weight;
  weights.head = linear(config.vocab_size, config.hidden_dim, config.head_bias);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    layer.qkv = linear(config.qkv_features(), config.hidden_dim, config.qkv_bias);
    layer.attention_out = linear(config.hidden_dim, config.attention_features(), config.out_bias);
    if (const LatentAttention& latent = config.latent; config.has_latent_attention()) {
      const int32_t query_inputs = latent.query_rank > 0 ? latent.query_rank : config.hidden_dim;
      layer.latent.query_down = linear(latent.query_rank, config.hidden_dim, config.qkv_bias);
      layer.latent.query = linear(config.latent_query_features(), query_inputs, false);
      layer.latent.kv_down = linear(config.head_dim, config.hidden_dim, config.qkv_bias);
      layer.latent.key_up.assign(static_cast<size_t>(config.num_heads),
                                 linear(latent.kv_rank, latent.plain_dim, false));
      layer.latent.value_up.assign(static_cast<size_t>(config.num_heads),
                                   linear(latent.value_dim, latent.kv_rank, false));
    }
    layer.mlp_up = linear(config.up_features(), config.hidden_dim, config.mlp_bias);
    layer.mlp_down = linear(config.hidden_dim, config.ffn_dim, config.mlp_bias);
    if (config.has_experts(i)) {
      const auto expert = [&](int32_t width) {
        return ExpertWeights{linear(config.up_features(width), config.hidden_dim, config.expert_bias),
                             linear(config.hidden_dim, width, config.expert_bias)};
      };
      layer.router = linear(config.router_features(), config.hidden_dim, config.router_bias);
      layer.router.weight.precision = Precision::kFp32;
      const auto num_experts = static_cast<size_t>(config.routing.num_experts);
      layer.experts.up.assign(num_experts, expert(config.expert_ffn_dim).up);
      layer.experts.down.assign(num_experts, expert(config.expert_ffn_dim).down);
      layer.shared_expert = expert(config.shared_ffn_dim);
    }
    if (config.qk_norm) layer.query_norm.weight = layer.key_norm.weight = bias;
  }
  return weights;
}

}  // namespace dunlin::engine
