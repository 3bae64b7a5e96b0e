// SPDX-License-Identifier: Apache-2.0
// GLM 4.7 Flash: DeepSeek V3's attention and rule of routing, without groups of experts. The layer behind the last that
// predicts further tokens is not served. Source: transformers 5.23, models/glm4_moe_lite.
#include "engine/model/architectures/deepseek_family.h"

namespace dunlin::engine {
namespace {

void ParseGlm4MoeLite(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields, {.max_context = 202752, .norm_epsilon = 1e-5}, config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 64, .num_chosen = 4, .width = "moe_intermediate_size", .default_width = 1536}, 1,
                       1, config);
  RefuseOtherThan(fields, "topk_method", "noaux_tc");
  ParseGroupedRouting(fields, {.scale = 1.8}, config);
  config->rotary.interleaved = fields.BoolOr("rope_interleave", true);
}

constexpr const char* kGlm4MoeLiteTypes[] = {"glm4_moe_lite"};

}  // namespace

// Its GGUF files are DeepSeek V3's (deepseek2).
extern const Architecture kGlm4MoeLite = {.name = "glm4_moe_lite",
                                          .model_types = kGlm4MoeLiteTypes,
                                          .parse_config = &ParseGlm4MoeLite,
                                          .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases}};

}  // namespace dunlin::engine
