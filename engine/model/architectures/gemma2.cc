// SPDX-License-Identifier: Apache-2.0
// Gemma 2: Llama's fields with norms before and after the attention and the MLP (weights stored as w, applied as 1 +
// w), a scaled embedding, a sliding window in every other layer, and soft caps on attention scores and logits. Source:
// transformers 5.23, models/gemma2.
#include <cmath>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
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
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->norm_placement = NormPlacement::kPreAndPost;
  config->norm_weight_offset = 1.0F;
  config->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
  const double scalar = fields.NumberOr("query_pre_attn_scalar", 1e-3, 1e6, 256.0);
  config->attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  config->attention_softcap = ParseCap(fields, "attn_logit_softcapping", 50.0);
  config->logit_softcap = ParseCap(fields, "final_logit_softcapping", 30.0);
  SetWindows(fields, ParseWindow(fields), {.first = 0, .step = 2}, config);
}

constexpr WeightName kGemma2Norms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.pre_feedforward_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
};
constexpr auto kGemma2Weights = WithNorms(kGemma2Norms);
constexpr const char* kGemma2Types[] = {"gemma2"};

}  // namespace

const Architecture kGemma2 = {"gemma2", kGemma2Types, &ParseGemma2, kLlamaPrefixes, kGemma2Weights, kLlamaBuffers};

}  // namespace dunlin::engine
