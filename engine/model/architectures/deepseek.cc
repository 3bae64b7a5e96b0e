// SPDX-License-Identifier: Apache-2.0
// DeepSeek V2, V2 Lite, V3 and R1, Kimi K2 and the text part of K2.5: multi-head latent attention, and experts with
// shared ones in all but the first layers. The layers behind the last that predict further tokens are not served.
// Source: transformers 5.23, models/deepseek_v2, models/deepseek_v3, models/kimi_k25.
#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/deepseek_family.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseDeepseekV2(JsonFields& fields, ModelConfig* config) {
  fields.Int("num_experts_per_tok", 1, kMaxExperts);  // without a default in transformers
  ParseDeepseekFamily(fields, {.max_context = 2048}, config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 64, .num_chosen = 1, .width = "moe_intermediate_size", .default_width = 1407}, 2,
                       0, config);
  RefuseUnsupported(fields, {"norm_topk_prob"});
  ParseGroupLimitedRouting(fields, config);
  config->rotary.interleaved = true;
}

void ParseDeepseekV3(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields, {.max_context = 4096}, config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 2048},
                       1, 3, config);
  RefuseOtherThan(fields, "topk_method", "noaux_tc");
  ParseGroupedRouting(fields, {.num_groups = 8, .chosen_groups = 4, .scale = 2.5}, config);
  config->rotary.interleaved = fields.BoolOr("rope_interleave", true);
}

constexpr const char* kV2Types[] = {"deepseek_v2"};
constexpr const char* kV3Types[] = {"deepseek_v3", "kimi_k2"};
constexpr const char* kKimiTypes[] = {"kimi_k25"};

void RefuseVariantsOfDeepseek2(GgufConfigWriter* config, bool sigmoid) {
  GgufFields& fields = config->fields();
  const std::string temperature = config->Key("attention.temperature_scale");
  if (fields.Number(temperature).value_or(0.0) != 0.0) {
    fields.Fail(temperature, "is not 0: scores scaled by position are not supported");
  }
  const int64_t first_sparse = config->Required("leading_dense_block_count", 0, kMaxLayers);
  config->Required("expert_shared_count", 1, kMaxFfnDim);
  if (sigmoid) return;
  RefuseGgufTensor(config, absl::StrCat("blk.", first_sparse, ".exp_probs_b.bias"),
                   "a correction of softmax scores (expert_gating_func is not 2)");
  const std::string norm = config->Key("expert_weights_norm");
  if (fields.Bool(norm).value_or(false)) fields.Fail(norm, "is true, which is not supported with softmax gating");
}

// Sigmoid gating is V3's, softmax V2's, as without the key. Files of older converters have no groups: those of the
// published models are told by the number of experts. No file has mscale, which is mscale_all_dim in every published
// config; the key has a tenth of that.
void WriteGgufDeepseek2(GgufConfigWriter* config) {
  constexpr int64_t kExpertsOfV2 = 160;
  constexpr int64_t kExpertsOfV3 = 256;
  GgufFields& fields = config->fields();
  const std::string gating = config->Key("expert_gating_func");
  const int64_t function = fields.Int(gating, 0, 255).value_or(0);
  const bool sigmoid = function == kGgufSigmoidGating;
  if (function > kGgufSigmoidGating) {
    fields.Fail(gating, absl::StrCat("is ", function, "; must be 1 (softmax) or 2 (sigmoid)"));
  }
  RefuseVariantsOfDeepseek2(config, sigmoid);
  const bool grouped = !fields.Has(config->Key("expert_group_count")) &&
                       config->Required("expert_count", 1, kMaxExperts) == (sigmoid ? kExpertsOfV3 : kExpertsOfV2);
  if (grouped) {
    WriteGgufRouting(config, 8, sigmoid ? 4 : 3);
  } else {
    WriteGgufRouting(config, 1, 1);
  }
  if (sigmoid) {
    (*config)["model_type"] = "deepseek_v3";
  } else {
    (*config)["topk_method"] = (*config)["n_group"] == 1 ? "greedy" : "group_limited_greedy";
  }
  GgufConfigWriter::Json& scaling = (*config)["rope_scaling"];
  const std::optional<double> tenth = fields.Number(config->Key("rope.scaling.yarn_log_multiplier"));
  if (scaling.is_object() && tenth.has_value()) scaling["mscale"] = scaling["mscale_all_dim"] = *tenth * 10.0;
}

constexpr GgufForm kDeepseekV2Gguf[] = {{.name = "deepseek2",
                                         .weights = gguf_names::kGatedLatentRows,
                                         .write_fields = &WriteGgufDeepseek2,
                                         .tensor = kGgufHeadRows,
                                         .experts = true,
                                         .latent_attention = true},
                                        {.name = "deepseek2",
                                         .weights = gguf_names::kGatedLatent,
                                         .write_fields = &WriteGgufDeepseek2,
                                         .experts = true,
                                         .latent_attention = true}};

}  // namespace

extern const Architecture kDeepseekV2 = {.name = "deepseek_v2",
                                         .model_types = kV2Types,
                                         .parse_config = &ParseDeepseekV2,
                                         .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases},
                                         .gguf = kDeepseekV2Gguf};
extern const Architecture kDeepseekV3 = {.name = "deepseek_v3",
                                         .model_types = kV3Types,
                                         .parse_config = &ParseDeepseekV3,
                                         .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases},
                                         .multimodal_types = kKimiTypes};

}  // namespace dunlin::engine
