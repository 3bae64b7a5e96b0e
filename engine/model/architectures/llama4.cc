// SPDX-License-Identifier: Apache-2.0
// Llama 4, its text model: attention within chunks of positions, and full layers without positions whose queries take a
// factor that grows with their position; in some layers experts, of which a row reads one times its weight, and a
// shared one. Source: transformers 5.23, models/llama4.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kLlama4Defaults = {.max_context = 131072,
                                           .head_dim = 128,
                                           .ffn_dim = 8192,
                                           .norm_epsilon = 1e-5,
                                           .rotary = {.default_theta = 500000.0}};
constexpr int64_t kLlama4ChunkUnit = 32;  // tokens of the longest page
constexpr int64_t kLlama4Chunk = 8192;

// no_rope_layers: 1 of a layer with positions; without it every no_rope_layer_interval-th has none.
void SetLlama4Positions(JsonFields& fields, ModelConfig* config) {
  const int64_t interval = fields.IntOr("no_rope_layer_interval", 1, kMaxLayers, 4);
  const std::vector<int64_t> rotates = fields.IntListOr("no_rope_layers", 0, 1, kMaxLayers);
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!rotates.empty() && rotates.size() < num_layers) {
    return fields.Fail(
        absl::StrCat("no_rope_layers has ", rotates.size(), " entries; num_hidden_layers is ", num_layers));
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const bool positions = rotates.empty() ? static_cast<int64_t>(layer + 1) % interval != 0 : rotates[layer] != 0;
    config->rotary.layer_index.push_back(positions ? 0 : -1);
  }
}

// layer_types, or else the layers with positions. REQUIRES: SetLlama4Positions has been called.
void SetLlama4Chunks(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  const int64_t chunk = fields.IntOr("attention_chunk_size", kLlama4ChunkUnit, kMaxContextTokens,
                                     fields.Mentions("attention_chunk_size") ? 0 : kLlama4Chunk);
  if (!fields.status().ok()) return;
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!types.empty() && types.size() != num_layers) {
    return fields.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
  }
  if (chunk % kLlama4ChunkUnit != 0) {
    return fields.Fail(absl::StrCat("attention_chunk_size is ", chunk, "; must be a multiple of ", kLlama4ChunkUnit));
  }
  const auto reach = static_cast<int32_t>(chunk < config->max_context ? chunk : 0);
  std::vector<int32_t> windows;
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const std::string type = !types.empty()                                           ? types[layer]
                             : config->rotary.index(static_cast<int32_t>(layer)) >= 0 ? "chunked_attention"
                                                                                      : "full_attention";
    const bool chunked = type == "chunked_attention";
    if (!chunked && type != "full_attention") {
      return fields.Fail(absl::StrCat("layer_types[", layer, "] is '", type.substr(0, 32),
                                      "'; known: chunked_attention, full_attention"));
    }
    if (chunked && chunk == 0) return fields.Fail("attention_chunk_size is null, but layers have chunked attention");
    windows.push_back(chunked ? reach : 0);
  }
  if (std::all_of(windows.begin(), windows.end(), [](int32_t window) { return window == 0; })) return;
  config->attention.layer_windows = std::move(windows);
  config->attention.chunked_windows = true;
}

// moe_layers, or else every interleave_moe_layer_step-th.
void SetLlama4Experts(JsonFields& fields, ModelConfig* config) {
  ParseExperts(fields, {.num_experts = 16, .num_chosen = 1, .default_width = kLlama4Defaults.ffn_dim}, config);
  ExpertSpec& experts = config->experts;
  if (fields.status().ok() && experts.routing.num_chosen != 1) {
    return fields.Fail(absl::StrCat("num_experts_per_tok is ", experts.routing.num_chosen,
                                    "; must be 1 where the inputs of experts are scaled"));
  }
  experts.routing.scoring = kernels::ExpertScoring::kSigmoidOfChosen;
  experts.scaled_inputs = true;
  experts.shared_ffn_dim = experts.ffn_dim;
  config->mlp.ffn_dim = static_cast<int32_t>(fields.IntOr("intermediate_size_mlp", 1, kMaxFfnDim, 16384));
  const int64_t step = fields.IntOr("interleave_moe_layer_step", 1, kMaxLayers, 1);
  const std::vector<int64_t> sparse = fields.IntListOr("moe_layers", 0, kMaxLayers - 1, kMaxLayers);
  if (fields.Has("moe_layers") && sparse.empty()) return fields.Fail("moe_layers is empty: no layer has experts");
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool listed = std::find(sparse.begin(), sparse.end(), layer) != sparse.end();
    experts.dense_layers.push_back(sparse.empty() ? (layer + 1) % step != 0 : !listed);
  }
}

void ParseLlama4(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kLlama4Defaults, config);
  config->rotary.interleaved = true;
  AttentionSpec& attention = config->attention;
  attention.qkv_bias = attention.out_bias = fields.BoolOr("attention_bias", false);
  if (fields.BoolOr("use_qk_norm", true)) {
    attention.qk_norm = attention.norms_after_rotation = attention.norms_of_rotated = true;
    attention.fixed_query_norm = 1.0F;
  }
  attention.query_scale_unrotated = true;
  attention.query_scale_offset = 1;
  const double scale = fields.NumberOr("attn_scale", 0.0, 1e3, 0.1);
  if (fields.FlagOr("attn_temperature_tuning", true)) attention.query_scale_beta = static_cast<float>(scale);
  attention.query_scale_period = static_cast<int32_t>(fields.IntOr("floor_scale", 1, kMaxContextTokens, 8192));
  SetLlama4Positions(fields, config);
  SetLlama4Chunks(fields, config);
  SetLlama4Experts(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kLlama4Others[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kGate, "layers.#.feed_forward.gate_proj"},
    {kMlpUp, kUp, "layers.#.feed_forward.up_proj"},
    {kMlpDown, kAll, "layers.#.feed_forward.down_proj"},
    {kRouter, kExperts, "layers.#.feed_forward.router"},
    {kSharedUp, kGate, "layers.#.feed_forward.shared_expert.gate_proj"},
    {kSharedUp, kUp, "layers.#.feed_forward.shared_expert.up_proj"},
    {kSharedDown, kAll, "layers.#.feed_forward.shared_expert.down_proj"},
};
// As published the experts are stacked; quantised checkpoints have a matrix for each.
constexpr WeightName kLlama4Experts[] = {
    {kExpertUp, kGate, "layers.#.feed_forward.experts.@.gate_proj"},
    {kExpertUp, kUp, "layers.#.feed_forward.experts.@.up_proj"},
    {kExpertDown, kAll, "layers.#.feed_forward.experts.@.down_proj"},
};
constexpr WeightName kLlama4Stacks[] = {
    {.slot = kExpertUp, .part = kAll, .name = "layers.#.feed_forward.experts.@.gate_up_proj", .weight = ""},
    {.slot = kExpertDown, .part = kAll, .name = "layers.#.feed_forward.experts.@.down_proj", .weight = ""},
};
constexpr auto kLlama4Weights = WithoutMlp(kLlama4Others, kLlama4Experts);
constexpr auto kLlama4Stacked = WithoutMlp(kLlama4Others, kLlama4Stacks);
constexpr const char* kLlama4Types[] = {"llama4_text"};
constexpr const char* kLlama4Outer[] = {"llama4"};

// Files say neither how long a chunk is nor which layers have positions, nor the queries' factor; 128 experts are
// Maverick's, which has no norms of Q and K. Source: llama.cpp, src/models/llama4.cpp.
void WriteGgufLlama4(GgufConfigWriter* config) {
  constexpr int64_t kMaverickExperts = 128;
  for (const char* key : {"attention.sliding_window", "attention.sliding_window_pattern"}) {
    if (config->fields().Has(config->Key(key))) {
      config->fields().Fail(config->Key(key), "is set, which is not supported here");
    }
  }
  const int64_t num_experts = config->Required("expert_count", 1, kMaxExperts);
  (*config)["use_qk_norm"] = num_experts != kMaverickExperts;
  (*config)["intermediate_size_mlp"] = (*config)["intermediate_size"];
  (*config)["intermediate_size"] = config->Required("expert_feed_forward_length", 1, kMaxFfnDim);
  (*config)["interleave_moe_layer_step"] = config->Required("interleave_moe_layer_step", 1, kMaxLayers);
}

constexpr GgufForm kLlama4Gguf[] = {{.name = "llama4",
                                     .weights = gguf_names::kGatedPlainHeads,
                                     .write_fields = &WriteGgufLlama4,
                                     .interleaved_rotation = true,
                                     .experts = true}};

}  // namespace

extern const Architecture kLlama4Text = {.name = "llama4_text",
                                         .model_types = kLlama4Types,
                                         .parse_config = &ParseLlama4,
                                         .names = {.prefixes = kLlamaPrefixes,
                                                   .weights = kLlama4Weights,
                                                   .ignored = kLlamaBuffers,
                                                   .aliases = kTextPartAliases,
                                                   .expert_layout = ExpertLayout::kColumns,
                                                   .stacked = kLlama4Stacked},
                                         .gguf = kLlama4Gguf,
                                         .multimodal_types = kLlama4Outer,
                                         .text_ties_head = true};

}  // namespace dunlin::engine
