// SPDX-License-Identifier: Apache-2.0
// GPT-OSS: experts with biases and a clamped gate in every layer, attention sinks, every other layer with a sliding
// window. Source: transformers 5.23, models/gpt_oss.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGptOssDefaults = {
    .max_context = 131072, .head_dim = 64, .norm_epsilon = 1e-5, .rotary = {.default_theta = 150000.0}};

void ParseGptOss(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kGptOssDefaults, config);
  SetClampedGate(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", true);
  config->attention.sinks = true;
  ParseExperts(fields, {.num_experts = 128, .num_chosen = 4}, config);
  config->experts.routing.scoring = kernels::ExpertScoring::kSoftmaxOfChosen;
  config->experts.router_bias = config->experts.bias = true;
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 128), {.step = 2}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kGptOssNames[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {.slot = kAttentionSinks, .part = kAll, .name = "layers.#.self_attn.sinks", .weight = ""},
    {kRouter, kExperts, "layers.#.mlp.router"},
    {.slot = kExpertUp, .part = kAll, .name = "layers.#.mlp.experts.@.gate_up_proj", .weight = "", .bias = "_bias"},
    {.slot = kExpertDown, .part = kAll, .name = "layers.#.mlp.experts.@.down_proj", .weight = "", .bias = "_bias"},
};
constexpr auto kGptOssWeights = WithNorms(kGptOssNames);
constexpr const char* kGptOssTypes[] = {"gpt_oss"};

// The ramp of its YaRN scaling is not rounded to whole dimensions, which files do not say.
void WriteGgufGptOss(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 2;
  RequireGgufWindow(config);
  config->WriteWindows("sliding_window", kPeriod);
  config->Copy("expert_feed_forward_length", "intermediate_size");
  GgufConfigWriter::Json& scaling = (*config)["rope_scaling"];
  if (scaling.is_object()) scaling["truncate"] = false;
}

constexpr GgufForm kGptOssGguf[] = {
    {.name = "gpt-oss", .weights = gguf_names::kGatedLateNorms, .write_fields = &WriteGgufGptOss, .experts = true}};

}  // namespace

extern const Architecture kGptOss = {
    .name = "gpt_oss",
    .model_types = kGptOssTypes,
    .parse_config = &ParseGptOss,
    .names = {kLlamaPrefixes, kGptOssWeights, kLlamaBuffers, {}, ExpertLayout::kInterleaved},
    .gguf = kGptOssGguf};

}  // namespace dunlin::engine
