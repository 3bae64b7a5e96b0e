// SPDX-License-Identifier: Apache-2.0
// Mistral Small 4, by itself or as the text part of a mistral3: DeepSeek's latent attention with Ministral 3's factor
// of queries, and experts by groups of softmax scores, stacked. Source: transformers 5.24, models/mistral4.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/deepseek_family.h"
#include "engine/model/architectures/gguf_fields.h"

namespace dunlin::engine {
namespace {

// Published configs have rope_parameters: transformers' default, YaRN of constants, is not served.
void ParseMistral4(JsonFields& fields, ModelConfig* config) {
  SetQueryScale(fields, config);
  ParseDeepseekFamily(
      fields, {.max_context = 1048576, .query_rank = 1024, .kv_rank = 256, .plain_dim = 64, .names_share = true},
      config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 128, .num_chosen = 4, .width = "moe_intermediate_size", .default_width = 2048},
                       1, 0, config);
  ParseGroupedSoftmax(fields, config);
  config->rotary.interleaved = fields.BoolOr("rope_interleave", true);
}

using enum WeightSlot;
using enum FusedPart;

// Quantised checkpoints may have a matrix for each expert.
constexpr WeightName kMistral4Stacks[] = {
    {kRouter, kExperts, "layers.#.mlp.gate"},
    {.slot = kExpertUp, .part = kAll, .name = "layers.#.mlp.experts.@.gate_up_proj", .weight = ""},
    {.slot = kExpertDown, .part = kAll, .name = "layers.#.mlp.experts.@.down_proj", .weight = ""},
};
constexpr auto kMistral4Stacked = WithLatentAttention(kMistral4Stacks, kDeepseekExperts);
constexpr const char* kMistral4Types[] = {"mistral4"};
constexpr const char* kMistral4Outer[] = {"mistral3"};

// A tenth of mscale_all_dim, as in DeepSeek's files.
void WriteGgufMistral4(GgufConfigWriter* config) {
  GgufFields& fields = config->fields();
  const std::string gating = config->Key("expert_gating_func");
  const int64_t function = fields.Int(gating, 0, 255).value_or(0);
  if (function > kGgufSoftmaxGating) fields.Fail(gating, absl::StrCat("is ", function, "; must be 1 (softmax)"));
  WriteGgufRouting(config, 1, 1);
  const double beta = fields.Number(config->Key("attention.temperature_scale")).value_or(0.0);
  const double tenth = fields.Number(config->Key("rope.scaling.yarn_log_multiplier")).value_or(0.0);
  WriteGgufQueryScale(config, beta, tenth * 10.0);
}

// The experts' gates and ups are one stack, or two.
constexpr GgufForm kMistral4Gguf[] = {{.name = "mistral4",
                                       .weights = gguf_names::kFusedLatent,
                                       .write_fields = &WriteGgufMistral4,
                                       .tensor = "blk.0.ffn_gate_up_exps.weight",
                                       .experts = true,
                                       .latent_attention = true},
                                      {.name = "mistral4",
                                       .weights = gguf_names::kGatedLatent,
                                       .write_fields = &WriteGgufMistral4,
                                       .experts = true,
                                       .latent_attention = true}};

}  // namespace

extern const Architecture kMistral4 = {.name = "mistral4",
                                       .model_types = kMistral4Types,
                                       .parse_config = &ParseMistral4,
                                       .names = {.prefixes = kLlamaPrefixes,
                                                 .weights = kDeepseekWeights,
                                                 .ignored = kLlamaBuffers,
                                                 .aliases = kDeepseekAliases,
                                                 .stacked = kMistral4Stacked},
                                       .gguf = kMistral4Gguf,
                                       .multimodal_types = kMistral4Outer};

}  // namespace dunlin::engine
