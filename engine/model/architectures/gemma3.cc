// SPDX-License-Identifier: Apache-2.0
// Gemma 3, its text model: Gemma 2 without soft caps, with a norm over each head of Q and K (stored as w, applied as 1
// + w), and rotary positions of another base in sliding layers. Of the multimodal checkpoints the text part is served.
// Source: transformers 5.23, models/gemma3.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGemma3Defaults = {
    .max_context = 131072,
    .head_dim = 256,
    .vocab_size = 262208,  // which the published multimodal configs leave out, as they do heads
    .num_heads = 8,
    .num_kv_heads = 4,
    .activation_field = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .tied_embeddings = true,
    .rotary = {.default_theta = 1e6, .nested = "full_attention", .stretched = true}};
constexpr RotaryFields kGemma3LocalRotary = {
    .theta = "rope_local_base_freq", .nested = "sliding_attention", .stretched = true};
constexpr int64_t kGemma3DefaultPattern = 6;

void ParseText(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kGemma3Defaults, config);
  RefuseUnsupported(fields, {"use_bidirectional_attention"});
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (fields.Has(cap)) fields.Fail(absl::StrCat(cap, " is set, which is not supported here"));
  }
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->norm.placement = NormPlacement::kPreAndPost;
  config->norm.weight_offset = 1.0F;
  config->attention.qk_norm = true;
  config->embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
  const double scalar = fields.NumberOr("query_pre_attn_scalar", 1e-3, 1e6, 256.0);
  config->attention.scale = static_cast<float>(1.0 / std::sqrt(scalar));
  const int64_t pattern = fields.IntOr("sliding_window_pattern", 1, 1 << 16, kGemma3DefaultPattern);
  const std::vector<bool> sliding = SetWindows(fields, ParseWindow(fields), {.full_every = pattern}, config);
  const bool old_style = fields.Has("rope_local_base_freq") || !fields.Has("rope_parameters");
  if (fields.status().ok()) AddSlidingRotary(fields, kGemma3LocalRotary, old_style, sliding, config);
}

constexpr WeightName kGemma3Norms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.pre_feedforward_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
    {WeightSlot::kQueryNorm, FusedPart::kAll, "layers.#.self_attn.q_norm"},
    {WeightSlot::kKeyNorm, FusedPart::kAll, "layers.#.self_attn.k_norm"},
};
constexpr auto kGemma3Weights = WithNorms(kGemma3Norms);
constexpr const char* kTextTypes[] = {"gemma3_text"};
constexpr const char* kMultimodalTypes[] = {"gemma3"};

void WriteGgufGemma3(GgufConfigWriter* config) {
  constexpr int64_t kLayersOf27B = 62;
  constexpr int64_t kPeriod = 6;
  config->WriteWindows("sliding_window", kPeriod);
  config->CopyOr("rope.freq_base_swa", "rope_local_base_freq", kGgufLocalTheta);
  config->Copy("final_logit_softcapping", "final_logit_softcapping");
  (*config)["query_pre_attn_scalar"] = GgufQueryScalar(config, kLayersOf27B);
}

constexpr GgufForm kGemma3TextGguf[] = {{.name = "gemma3", .write_fields = &WriteGgufGemma3, .offset_norms = true}};

}  // namespace

extern const Architecture kGemma3Text = {.name = "gemma3_text",
                                         .model_types = kTextTypes,
                                         .parse_config = &ParseText,
                                         .names = {kLlamaPrefixes, kGemma3Weights, kLlamaBuffers, kTextPartAliases},
                                         .gguf = kGemma3TextGguf,
                                         .multimodal_types = kMultimodalTypes};

}  // namespace dunlin::engine
