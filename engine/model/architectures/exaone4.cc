// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: Llama with a norm over each head of Q and K, and norms behind the attention and the MLP instead of before
// them. Where some layers slide, the others have no positions. K-EXAONE (exaone_moe) has the same attention, norms
// before, and experts chosen by DeepSeek V3's rule, a shared one besides, in all but the first layers; what it predicts
// further tokens with is not served. Source: transformers 5.23, models/exaone4, models/exaone_moe.
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

void ParseAttention(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048, .norm_epsilon = 1e-5}, config);
  config->attention.qk_norm = true;
  const int64_t window = ParseWindow(fields);
  if (window == 0) return;
  // Published configs have the pattern as text ("LLLG"), and layer_types beside it.
  const bool typed = fields.Has("layer_types");
  const int64_t pattern = typed ? 1 : fields.IntOr("sliding_window_pattern", 1, 1 << 16, 4);
  const std::vector<bool> sliding = SetWindows(fields, window, {.full_every = pattern}, config);
  for (const bool slides : sliding) config->rotary.layer_index.push_back(slides ? 0 : -1);
}

void ParseExaone4(JsonFields& fields, ModelConfig* config) {
  ParseAttention(fields, config);
  config->norm.placement = NormPlacement::kPostInside;
}

void ParseExaoneMoe(JsonFields& fields, ModelConfig* config) {
  ParseAttention(fields, config);
  ParseExperts(fields, {.num_experts = 64, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 1024},
               config);
  ParseGroupedRouting(fields, {.scale = 2.5}, config);
  ParseSharedExperts(fields, "num_shared_experts", 1, config);
  ParseDenseLayers(fields, 1, config);
}

constexpr WeightName kExaone4Norms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
    {WeightSlot::kQueryNorm, FusedPart::kAll, "layers.#.self_attn.q_norm"},
    {WeightSlot::kKeyNorm, FusedPart::kAll, "layers.#.self_attn.k_norm"},
};
constexpr auto kExaone4Weights = WithNorms(kExaone4Norms);
constexpr auto kExaoneMoeWeights = WithNorms(kLlamaQkNorms, kLlamaExperts, kDeepseekExperts);
constexpr NameAlias kExaoneMoeAliases[] = {{"mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias"}};
constexpr const char* kExaone4Types[] = {"exaone4"};
constexpr const char* kExaoneMoeTypes[] = {"exaone_moe"};

void WriteGgufExaone4(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  config->WriteWindows("sliding_window", kPeriod);
}

void WriteGgufExaoneMoe(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufRouting(config, 1, 1);
  config->Copy("expert_shared_count", "num_shared_experts");
  WriteGgufExaone4(config);
}

constexpr GgufForm kExaone4Gguf[] = {{.name = "exaone4", .write_fields = &WriteGgufExaone4}};
constexpr GgufForm kExaoneMoeGguf[] = {{.name = "exaone-moe", .write_fields = &WriteGgufExaoneMoe, .experts = true}};

constexpr const char* kExaone4Outer[] = {"exaone4_5"};

}  // namespace

extern const Architecture kExaone4 = {.name = "exaone4",
                                      .model_types = kExaone4Types,
                                      .parse_config = &ParseExaone4,
                                      .names = {kLlamaPrefixes, kExaone4Weights, kLlamaBuffers, kTextPartAliases},
                                      .gguf = kExaone4Gguf,
                                      .multimodal_types = kExaone4Outer};
extern const Architecture kExaoneMoe = {.name = "exaone_moe",
                                        .model_types = kExaoneMoeTypes,
                                        .parse_config = &ParseExaoneMoe,
                                        .names = {kLlamaPrefixes, kExaoneMoeWeights, kLlamaBuffers, kExaoneMoeAliases},
                                        .gguf = kExaoneMoeGguf};

}  // namespace dunlin::engine
