// SPDX-License-Identifier: Apache-2.0
// Muse Glimmer, its text model: norms before and after each term, of 1 + w but for the last one, norms without weights
// of embeddings and of heads of Q and K, gated attention outputs, and full layers without positions among sliding ones.
// Source: transformers 5.24, models/muse_glimmer.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kMuseDefaults = {
    .max_context = 131072, .head_dim = 128, .activation_field = "hidden_activation", .norm_epsilon = 1e-5};
constexpr int64_t kMuseInterval = 4;  // of full layers, counted from the last

// layer_rope_theta: 0 of a layer without positions. All others have one base: transformers rotates them by that of
// rope_parameters.
void SetMusePositions(JsonFields& fields, ModelConfig* config) {
  constexpr double kMaxTheta = 1e30;
  const std::vector<double> thetas = fields.NumberListOr("layer_rope_theta", 0.0, kMaxTheta, kMaxLayers);
  const double theta = ParseRotaryScaling(fields, kMuseDefaults.rotary, config->max_context).theta;
  if (!fields.status().ok()) return;
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!thetas.empty() && thetas.size() != num_layers) {
    return fields.Fail(
        absl::StrCat("layer_rope_theta has ", thetas.size(), " entries; num_hidden_layers is ", num_layers));
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const bool rotates = thetas.empty() ? (num_layers - 1 - layer) % kMuseInterval != 0 : thetas[layer] > 0.0;
    if (rotates && !thetas.empty() && thetas[layer] != theta) {
      return fields.Fail(absl::StrCat("layer_rope_theta[", layer, "] is ", thetas[layer], "; must be 0 or ", theta,
                                      ", the rope_theta of all layers"));
    }
    config->rotary.layer_index.push_back(rotates ? 0 : -1);
  }
}

void ParseMuseGlimmer(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kMuseDefaults, config);
  AttentionSpec& attention = config->attention;
  attention.qkv_bias = attention.out_bias = fields.BoolOr("attention_bias", false);
  attention.output_gate = attention.qk_norm = true;
  attention.fixed_query_norm = static_cast<float>(fields.NumberOr("qk_scale_factor", 1e-6, 1e6, 3.87));
  config->embedding.norm = config->embedding.fixed_norm = true;
  config->norm.placement = NormPlacement::kPreAndPost;
  config->norm.weight_offset = 1.0F;
  config->norm.final_offset = false;
  config->norm.post_epsilon = static_cast<float>(fields.NumberOr("post_norm_eps", 1e-12, 1.0, 1e-8));
  config->head.scale = static_cast<float>(fields.NumberOr("output_multiplier", 1e-6, 1e6, 0.19611613513818404));
  config->head.softcap = static_cast<float>(fields.NumberOr("final_logit_softcapping", 1e-3, 1e6, 20.0));
  SetMusePositions(fields, config);
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, 2048);
  if (fields.status().ok()) SetWindows(fields, window, {.full_every = kMuseInterval, .from_last = true}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kMuseOthers[] = {
    {kAttentionGate, kAll, "layers.#.self_attn.gate_proj"},
    {kPostAttentionNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpNorm, kAll, "layers.#.pre_feedforward_layernorm"},
    {kPostMlpNorm, kAll, "layers.#.post_feedforward_layernorm"},
};
constexpr auto kMuseWeights = WithNorms(kMuseOthers);
constexpr const char* kMuseTypes[] = {"muse_glimmer_text"};
constexpr const char* kMuseOuter[] = {"muse_glimmer"};

}  // namespace

extern const Architecture kMuseGlimmerText = {.name = "muse_glimmer_text",
                                              .model_types = kMuseTypes,
                                              .parse_config = &ParseMuseGlimmer,
                                              .names = {kLlamaPrefixes, kMuseWeights, kLlamaBuffers, kTextPartAliases},
                                              .multimodal_types = kMuseOuter};

}  // namespace dunlin::engine
