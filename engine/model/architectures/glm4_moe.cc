// SPDX-License-Identifier: Apache-2.0
// GLM 4.5 and 4.6: Llama with partly rotated heads, and experts chosen by DeepSeek V3's rule, a shared one besides, in
// all but the first layers. GLM 4.5V and 4.6V have it as their text model. The layers behind the last that predict
// further tokens are not served. Source: transformers 5.24, models/glm4_moe, models/glm4v_moe.
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGlm4MoeDefaults = {
    .max_context = 131072, .norm_epsilon = 1e-5, .rotary = {.default_partial_factor = 0.5, .partial = true}};

void ParseGlm4MoeBy(JsonFields& fields, bool bias, ModelConfig* config) {
  ParseLlamaFamily(fields, kGlm4MoeDefaults, config);
  config->attention.qkv_bias = fields.BoolOr("attention_bias", bias);
  config->attention.qk_norm = fields.BoolOr("use_qk_norm", false);
  ParseExperts(fields, {.num_experts = 128, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 1408},
               config);
  ParseGroupedRouting(fields, {}, config);
  ParseSharedExperts(fields, "n_shared_experts", 1, config);
  ParseDenseLayers(fields, 1, config);
}

void ParseGlm4Moe(JsonFields& fields, ModelConfig* config) {
  ParseGlm4MoeBy(fields, false, config);
}

void ParseGlm4VMoe(JsonFields& fields, ModelConfig* config) {
  ParseGlm4MoeBy(fields, true, config);
}

constexpr auto kGlm4MoeWeights = WithNorms(kLlamaQkNorms, kLlamaExperts, kDeepseekExperts);
constexpr const char* kGlm4MoeTypes[] = {"glm4_moe"};
constexpr const char* kGlm4VMoeTypes[] = {"glm4v_moe_text"};
constexpr const char* kGlm4VMoeOuter[] = {"glm4v_moe", "glm46v"};

void WriteGgufGlm4Moe(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufRouting(config, 1, 1);
  (*config)["use_qk_norm"] = config->HasTensor("blk.0.attn_q_norm.weight");
}

constexpr GgufForm kGlm4MoeGguf[] = {{.name = "glm4moe",
                                      .weights = gguf_names::kGatedLateNorms,
                                      .write_fields = &WriteGgufGlm4Moe,
                                      .partial_rotary_field = "partial_rotary_factor",
                                      .experts = true}};

}  // namespace

extern const Architecture kGlm4Moe = {.name = "glm4_moe",
                                      .model_types = kGlm4MoeTypes,
                                      .parse_config = &ParseGlm4Moe,
                                      .names = {kLlamaPrefixes, kGlm4MoeWeights, kLlamaBuffers},
                                      .gguf = kGlm4MoeGguf};
extern const Architecture kGlm4VMoe = {.name = "glm4v_moe",
                                       .model_types = kGlm4VMoeTypes,
                                       .parse_config = &ParseGlm4VMoe,
                                       .names = {kLlamaPrefixes, kGlm4MoeWeights, kLlamaBuffers, kTextPartAliases},
                                       .multimodal_types = kGlm4VMoeOuter};

}  // namespace dunlin::engine
