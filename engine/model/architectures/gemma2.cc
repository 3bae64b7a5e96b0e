// SPDX-License-Identifier: Apache-2.0
// Gemma 2: Llama's fields with norms before and after the attention and the MLP (weights stored as w, applied as 1 +
// w), a scaled embedding, a sliding window in every other layer, and soft caps on attention scores and logits. Source:
// transformers 5.23, models/gemma2.
#include <cmath>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGemma2Defaults = {.max_context = 8192,
                                           .head_dim = 256,
                                           .activation_field = "hidden_activation",
                                           .activation = "gelu_pytorch_tanh",
                                           .tied_embeddings = true};
constexpr double kMinCap = 1e-3;
constexpr double kMaxCap = 1e6;

// An explicit null disables the cap.
float ParseCap(JsonFields& fields, const char* name, double fallback) {
  return static_cast<float>(fields.NumberOr(name, kMinCap, kMaxCap, fields.Mentions(name) ? 0.0 : fallback));
}

void ParseGemma2(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kGemma2Defaults, config);
  RefuseUnsupported(fields, {"use_bidirectional_attention"});
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->norm.placement = NormPlacement::kPreAndPost;
  config->norm.weight_offset = 1.0F;
  config->embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
  const double scalar = fields.NumberOr("query_pre_attn_scalar", 1e-3, 1e6, 256.0);
  config->attention.scale = static_cast<float>(1.0 / std::sqrt(scalar));
  config->attention.softcap = ParseCap(fields, "attn_logit_softcapping", 50.0);
  config->head.softcap = ParseCap(fields, "final_logit_softcapping", 30.0);
  SetWindows(fields, ParseWindow(fields), {.first = 0, .step = 2}, config);
}

constexpr WeightName kGemma2Norms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.pre_feedforward_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
};
constexpr auto kGemma2Weights = WithNorms(kGemma2Norms);
constexpr const char* kGemma2Types[] = {"gemma2"};

void WriteGgufGemma2(GgufConfigWriter* config) {
  constexpr int64_t kLayersOf27B = 46;
  config->Copy("attention.sliding_window", "sliding_window");
  config->Copy("attn_logit_softcapping", "attn_logit_softcapping");
  config->Copy("final_logit_softcapping", "final_logit_softcapping");
  (*config)["query_pre_attn_scalar"] = GgufQueryScalar(config, kLayersOf27B);
}

constexpr GgufForm kGemma2Gguf[] = {{.name = "gemma2", .write_fields = &WriteGgufGemma2, .offset_norms = true}};

}  // namespace

extern const Architecture kGemma2 = {.name = "gemma2",
                                     .model_types = kGemma2Types,
                                     .parse_config = &ParseGemma2,
                                     .names = {kLlamaPrefixes, kGemma2Weights, kLlamaBuffers},
                                     .gguf = kGemma2Gguf};

}  // namespace dunlin::engine
