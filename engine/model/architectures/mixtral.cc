// SPDX-License-Identifier: Apache-2.0
// Mixtral: Mistral with experts in every layer. Source: transformers 5.23, models/mixtral.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kMixtralDefaults = {
    .max_context = 131072, .norm_epsilon = 1e-5, .rotary = {.default_theta = 1e6}};

void ParseMixtral(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kMixtralDefaults, config);
  ParseExperts(fields, {.num_experts = 8, .num_chosen = 2}, config);
  config->experts.routing.normalized = true;
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kMixtralNames[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kRouter, kExperts, "layers.#.block_sparse_moe.gate"},
    {kExpertUp, kGate, "layers.#.block_sparse_moe.experts.@.w1"},
    {kExpertUp, kUp, "layers.#.block_sparse_moe.experts.@.w3"},
    {kExpertDown, kAll, "layers.#.block_sparse_moe.experts.@.w2"},
};
constexpr auto kMixtralWeights = WithNorms(kMixtralNames);
constexpr const char* kMixtralTypes[] = {"mixtral"};

void WriteGgufMixtral(GgufConfigWriter* config) {
  RefuseGgufSharedExperts(config);
  (*config)["intermediate_size"] = config->Required("feed_forward_length", 1, kMaxFfnDim);
  WriteGgufWindow(config);
}

constexpr GgufForm kMixtralGguf[] = {{.name = "llama",
                                      .write_fields = &WriteGgufMixtral,
                                      .tensor = kGgufRouter,
                                      .interleaved_rotation = true,
                                      .experts = true}};

}  // namespace

extern const Architecture kMixtral = {.name = "mixtral",
                                      .model_types = kMixtralTypes,
                                      .parse_config = &ParseMixtral,
                                      .names = {kLlamaPrefixes, kMixtralWeights, kLlamaBuffers},
                                      .gguf = kMixtralGguf};

}  // namespace dunlin::engine
