// SPDX-License-Identifier: Apache-2.0
// OLMo 2 and 3: Llama with one norm over all heads of Q and one over those of K, and norms behind the attention and the
// MLP instead of before them. In OLMo 3 three of four layers slide, and the scaling of the rotation is that of the
// others alone. Source: transformers 5.23, models/olmo2, models/olmo3.
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kOlmo2Defaults = {.max_context = 2048, .norm_epsilon = 1e-5};
constexpr LlamaDefaults kOlmo3Defaults = {
    .max_context = 2048, .norm_epsilon = 1e-5, .rotary = {.default_theta = 500000.0, .nested = "full_attention"}};
constexpr RotaryFields kSlidingRotary = {.default_theta = 500000.0, .nested = "sliding_attention"};
constexpr int64_t kOlmoDefaultPattern = 4;

void ParseOlmoBoth(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config) {
  ParseLlamaFamily(fields, defaults, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = config->attention.qk_norm_joint = true;
  config->norm.placement = NormPlacement::kPostInside;
}

void ParseOlmo2(JsonFields& fields, ModelConfig* config) {
  ParseOlmoBoth(fields, kOlmo2Defaults, config);
}

void ParseOlmo3(JsonFields& fields, ModelConfig* config) {
  ParseOlmoBoth(fields, kOlmo3Defaults, config);
  const int64_t window = ParseWindow(fields);
  const std::vector<bool> sliding = SetWindows(fields, window, {.full_every = kOlmoDefaultPattern}, config);
  const bool old_style = !fields.Has("rope_parameters");
  if (fields.status().ok()) AddSlidingRotary(fields, kSlidingRotary, old_style, sliding, config);
}

constexpr WeightName kOlmoNorms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
    {WeightSlot::kQueryNorm, FusedPart::kAll, "layers.#.self_attn.q_norm"},
    {WeightSlot::kKeyNorm, FusedPart::kAll, "layers.#.self_attn.k_norm"},
};
constexpr auto kOlmoWeights = WithNorms(kOlmoNorms);
constexpr const char* kOlmo2Types[] = {"olmo2"};
constexpr const char* kOlmo3Types[] = {"olmo3"};

// OLMo 3 is OLMo 2 with windows.
void WriteGgufOlmo2(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  if (config->Window() == 0) return;
  (*config)["model_type"] = "olmo3";
  config->WriteWindows("sliding_window", kPeriod);
}

constexpr GgufForm kOlmo2Gguf[] = {{.name = "olmo2", .write_fields = &WriteGgufOlmo2}};

}  // namespace

extern const Architecture kOlmo2 = {.name = "olmo2",
                                    .model_types = kOlmo2Types,
                                    .parse_config = &ParseOlmo2,
                                    .names = {kLlamaPrefixes, kOlmoWeights, kLlamaBuffers},
                                    .gguf = kOlmo2Gguf};
extern const Architecture kOlmo3 = {.name = "olmo3",
                                    .model_types = kOlmo3Types,
                                    .parse_config = &ParseOlmo3,
                                    .names = {kLlamaPrefixes, kOlmoWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
