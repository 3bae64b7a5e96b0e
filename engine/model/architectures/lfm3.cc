// SPDX-License-Identifier: Apache-2.0
// LFM3: gated short convolutions, and attention in some layers, over all tokens or over a window, with rotations of
// their own; norms before and after each term, one over each head of Q and K, and a gate of each head's output.
// Source: transformers 5.24, models/lfm3.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kLfm3Defaults = {.max_context = 128000,
                                         .head_dim = 128,
                                         .ffn_dim = 7680,
                                         .tied_embeddings = true,
                                         .rotary = {.default_theta = 1e6, .nested = "full_attention"}};
constexpr RotaryFields kLfm3SlidingRotary = {.nested = "sliding_attention"};

// Without rope_parameters half of the pairs of full layers rotate.
RotaryFields FullRotary(JsonFields& fields) {
  RotaryFields rotary = kLfm3Defaults.rotary;
  if (fields.Has("rope_parameters")) return rotary;
  rotary.default_type = "proportional";
  rotary.default_partial_factor = 0.5;
  return rotary;
}

// Without layer_types every second layer is a convolution, and the others, but for the first, see all tokens and a
// window in turn.
std::string DefaultType(int32_t layer) {
  if (layer % 4 == 2) return "full_attention";
  return layer % 4 == 0 && layer > 0 ? "sliding_attention" : "conv";
}

// Returns which layers slide; empty after an error.
std::vector<bool> ParseLfm3Layers(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, 256);
  if (!fields.status().ok()) return {};
  if (!types.empty() && types.size() != static_cast<size_t>(config->num_layers)) {
    fields.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", config->num_layers));
    return {};
  }
  std::vector<bool> sliding;
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const std::string type = types.empty() ? DefaultType(layer) : types[static_cast<size_t>(layer)];
    if (type != "full_attention" && type != "sliding_attention" && type != "conv") {
      fields.Fail(absl::StrCat("layer_types[", layer, "] is '", type.substr(0, 32),
                               "'; known: full_attention, sliding_attention, conv"));
      return {};
    }
    sliding.push_back(type == "sliding_attention");
    config->mixers.push_back(type == "conv" ? MixerKind::kShortConv : MixerKind::kAttention);
    const bool cut = sliding.back() && window < config->max_context;
    config->attention.layer_windows.push_back(cut ? static_cast<int32_t>(window) : 0);
  }
  std::vector<int32_t>& windows = config->attention.layer_windows;
  if (std::all_of(windows.begin(), windows.end(), [](int32_t tokens) { return tokens == 0; })) windows.clear();
  if (config->num_kv_layers() == 0) fields.Fail("no layer has attention, of which a model needs one (layer_types)");
  return sliding;
}

void ParseLfm3(JsonFields& fields, ModelConfig* config) {
  LlamaDefaults defaults = kLfm3Defaults;
  defaults.rotary = FullRotary(fields);
  ParseLlamaFamily(fields, defaults, config);
  config->norm.epsilon = static_cast<float>(fields.NumberOr("norm_eps", 1e-12, 1.0, 1e-5));
  if (fields.BoolOr("use_sandwich_norm", true)) config->norm.placement = NormPlacement::kPreAndPost;
  AttentionSpec& attention = config->attention;
  attention.qkv_bias = attention.out_bias = fields.BoolOr("attention_bias", false);
  attention.qk_norm = true;
  attention.output_gate = attention.head_gate = fields.BoolOr("use_attention_gate", true);
  if (!fields.status().ok()) return;
  config->short_conv = {.channels = config->hidden_dim,
                        .taps = static_cast<int32_t>(fields.IntOr("conv_L_cache", 2, kernels::kConvTapsMax, 7)),
                        .bias = fields.BoolOr("conv_bias", false)};
  const std::vector<bool> sliding = ParseLfm3Layers(fields, config);
  const bool plain = !fields.Has("rope_parameters");
  if (fields.status().ok()) AddSlidingRotary(fields, kLfm3SlidingRotary, plain, sliding, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kLfm3Weights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.operator_norm"},
    {kPostAttentionNorm, kAll, "layers.#.post_operator_norm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kAttentionGate, kAll, "layers.#.self_attn.gate_proj"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kShortConvIn, kAll, "layers.#.conv.in_proj"},
    {kShortConvTaps, kAll, "layers.#.conv.conv"},
    {.slot = kShortConvBias, .part = kAll, .name = "layers.#.conv.conv", .weight = ".bias"},
    {kShortConvOut, kAll, "layers.#.conv.out_proj"},
    {kMlpNorm, kAll, "layers.#.ffn_norm"},
    {kPostMlpNorm, kAll, "layers.#.post_ffn_norm"},
    {kMlpUp, kGate, "layers.#.feed_forward.w1"},
    {kMlpUp, kUp, "layers.#.feed_forward.w3"},
    {kMlpDown, kAll, "layers.#.feed_forward.w2"},
    {kFinalNorm, kAll, "embedding_norm"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kLfm3Types[] = {"lfm3"};
constexpr const char* kLfm3Outer[] = {"lfm3_vl"};
// As published the gate has the first name, and in transformers' module the second.
constexpr NameAlias kLfm3Aliases[] = {{"self_attn.gate_proj", "self_attn.g_proj"}, kTextPartAliases[0]};

}  // namespace

extern const Architecture kLfm3 = {.name = "lfm3",
                                   .model_types = kLfm3Types,
                                   .parse_config = &ParseLfm3,
                                   .names = {kLlamaPrefixes, kLfm3Weights, kLlamaBuffers, kLfm3Aliases},
                                   .multimodal_types = kLfm3Outer};

}  // namespace dunlin::engine
