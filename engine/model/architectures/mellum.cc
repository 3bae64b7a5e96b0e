// SPDX-License-Identifier: Apache-2.0
// Mellum 2: Qwen 3's layers with experts in all of them or some, among which are sliding ones with a rotation of their
// own. Layers that predict further tokens are not served. Source: transformers 5.24, models/mellum.
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kMellumDefaults = {.max_context = 131072,
                                           .head_dim = 128,
                                           .ffn_dim = 7168,
                                           .rotary = {.default_theta = 500000.0, .nested = "full_attention"}};
constexpr RotaryFields kMellumSlidingRotary = {.nested = "sliding_attention"};

void ParseMellum(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kMellumDefaults, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
  ParseExperts(fields, {.num_experts = 64, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 896},
               config);
  config->experts.routing.normalized = fields.BoolOr("norm_topk_prob", true);
  ParseDenseLayers(fields, 0, config);
  const int64_t window =
      fields.IntOr("sliding_window", 1, kMaxContextTokens, fields.Mentions("sliding_window") ? 0 : 1024);
  const std::vector<bool> sliding = SetWindows(fields, window, {.full_every = 1}, config);
  const bool plain = !fields.Has("rope_parameters");
  if (fields.status().ok()) AddSlidingRotary(fields, kMellumSlidingRotary, plain, sliding, config);
}

constexpr auto kMellumWeights = WithNorms(kLlamaQkNorms, kLlamaExperts);
constexpr const char* kMellumTypes[] = {"mellum"};

}  // namespace

extern const Architecture kMellum = {.name = "mellum",
                                     .model_types = kMellumTypes,
                                     .parse_config = &ParseMellum,
                                     .names = {kLlamaPrefixes, kMellumWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
