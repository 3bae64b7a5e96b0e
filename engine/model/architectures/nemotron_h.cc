// SPDX-License-Identifier: Apache-2.0
// Nemotron-H and Nemotron 3: layers of one term each, by a pattern of letters: Mamba2 (M), attention without positions
// (*), an MLP of squared ReLU without a gate (-), or such experts (E) with one that every token takes; the others may
// read and write rows of fewer elements. Mamba2 (Codestral Mamba): layers of Mamba2 alone. Source: transformers 5.24,
// models/nemotron_h, whose prefill alone clamps steps from below (time_step_min): they are not clamped here, as in its
// decoding; models/mamba2.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/mamba_fields.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

constexpr const char* kHybridPattern = "hybrid_override_pattern";
constexpr const char* kLetters = "M*-E";
constexpr int64_t kDefaultExpertWidth = 7688;
constexpr MambaFields kNemotronMamba = {.num_heads = "mamba_num_heads",
                                        .num_groups = "n_groups",
                                        .state_dim = "ssm_state_size",
                                        .taps = "conv_kernel",
                                        .conv_bias = "use_conv_bias",
                                        .bias = "use_bias",
                                        .default_groups = 8,
                                        .default_state_dim = 128};

// The pattern, or else the list of kinds.
std::string ParsePattern(JsonFields& fields) {
  std::string letters = ParseLayerLetters(fields, kLetters);
  std::string pattern = fields.TextOr(kHybridPattern, "");
  if (!letters.empty() || !fields.status().ok()) return letters;
  const size_t unknown = pattern.find_first_not_of(kLetters);
  const auto size = static_cast<int64_t>(pattern.size());
  if (pattern.empty()) {
    fields.Fail(absl::StrCat(kHybridPattern, " is missing, and so is layers_block_type"));
  } else if (unknown != std::string::npos) {
    fields.Fail(
        absl::StrCat(kHybridPattern, "[", unknown, "] is '", pattern.substr(unknown, 1), "'; known: M, *, - and E"));
  } else if (size > kMaxLayers || size != fields.IntOr("num_hidden_layers", 1, kMaxLayers, size)) {
    fields.Fail(absl::StrCat(kHybridPattern, " has ", size, " letters; limit is ", kMaxLayers,
                             ", and num_hidden_layers must be as many"));
  }
  return pattern;
}

void ParseNemotronHeads(JsonFields& fields, ModelConfig* config) {
  const int64_t num_heads = fields.IntOr("num_attention_heads", 1, kMaxHeads, 32);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, std::min<int64_t>(8, num_heads));
  const int64_t head_dim = fields.IntOr("attention_head_dim", 1, kMaxHeadDim, 128);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, head_dim), config);
  RefuseUnsupported(fields, {"attention_bias"});
  if (fields.Has("sliding_window")) fields.Fail("sliding_window is set, which is not supported");
}

void ParseNemotronMlps(JsonFields& fields, const std::string& letters, ModelConfig* config) {
  config->mlp.activation = ParseActivation(fields, "mlp_hidden_act", "relu2");
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  const int64_t ffn_dim = fields.IntOr("intermediate_size", 1, kMaxFfnDim, 21504);
  config->mlp.ffn_dim = letters.find('-') == std::string::npos ? 1 : static_cast<int32_t>(ffn_dim);
  if (letters.find('E') == std::string::npos) return;
  if (config->mlp.bias) return fields.Fail("mlp_bias is true in a model with experts, which is not supported");
  ParseExperts(
      fields,
      {.num_experts = 8, .num_chosen = 2, .width = "moe_intermediate_size", .default_width = kDefaultExpertWidth},
      config);
  ParseGroupedRouting(fields, {}, config);
  ExpertSpec& experts = config->experts;
  (void)fields.IntOr("n_shared_experts", 1, 1, 1);
  experts.shared_ffn_dim =
      static_cast<int32_t>(fields.IntOr("moe_shared_expert_intermediate_size", 1, kMaxFfnDim, kDefaultExpertWidth));
  experts.latent_dim = static_cast<int32_t>(fields.IntOr("moe_latent_size", 1, kMaxHiddenDim, 0));
  for (const char letter : letters) experts.dense_layers.push_back(letter != 'E');
}

void ParseNemotronH(JsonFields& fields, ModelConfig* config) {
  const std::string letters = ParsePattern(fields);
  if (!fields.status().ok()) return;
  config->num_layers = static_cast<int32_t>(letters.size());
  config->single_terms = true;
  config->hidden_dim = static_cast<int32_t>(fields.IntOr("hidden_size", 1, kMaxHiddenDim, 4096));
  config->vocab_size = static_cast<int32_t>(fields.IntOr("vocab_size", 1, kMaxVocabSize, 131072));
  config->max_context = static_cast<int32_t>(fields.IntOr("max_position_embeddings", 1, kMaxContextTokens, 4096));
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  ParseNemotronHeads(fields, config);
  ParseNemotronMlps(fields, letters, config);
  RefuseOtherThan(fields, "mamba_hidden_act", "silu");
  RefuseUnsupported(fields, {"mamba_proj_bias"});
  ParseMamba(fields, kNemotronMamba, fields.IntOr("mamba_head_dim", 1, kMaxHeadDim, 64), config);
  SetMixers(fields, letters, config);
}

constexpr MambaFields kPlainMamba = {.num_heads = "num_heads",
                                     .num_groups = "n_groups",
                                     .state_dim = "state_size",
                                     .taps = "conv_kernel",
                                     .conv_bias = "use_conv_bias",
                                     .bias = "use_bias",
                                     .default_groups = 8,
                                     .default_state_dim = 128};
constexpr int64_t kMambaContext = 262144;  // configs have none; Codestral Mamba was tested up to it
constexpr int32_t kPageWidth = 64;         // of the one head whose pages hold nothing: 4 KiB of 16 tokens

void ParseMamba2(JsonFields& fields, ModelConfig* config) {
  config->num_layers = static_cast<int32_t>(fields.IntOr("num_hidden_layers", 1, kMaxLayers, 64));
  config->single_terms = true;
  config->hidden_dim = static_cast<int32_t>(fields.IntOr("hidden_size", 1, kMaxHiddenDim, 4096));
  config->vocab_size = static_cast<int32_t>(fields.IntOr("vocab_size", 1, kMaxVocabSize, 32768));
  config->max_context =
      static_cast<int32_t>(fields.IntOr("max_position_embeddings", 1, kMaxContextTokens, kMambaContext));
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  config->mlp.ffn_dim = 1;
  SetHeads(fields, 1, 1, kPageWidth, config);
  RefuseOtherThan(fields, "hidden_act", "silu");
  const int64_t head_dim = fields.IntOr("head_dim", 1, kMaxHeadDim, 64);
  ParseMamba(fields, kPlainMamba, head_dim, config);
  ParseStepLimits(fields, &config->mamba);
  const int64_t width = fields.IntOr("expand", 1, 64, 2) * config->hidden_dim;
  if (fields.status().ok() && config->mamba.output_features() != width) {
    fields.Fail(absl::StrCat("head_dim is ", head_dim, " of ", config->mamba.shape.num_heads, " heads; they must have ",
                             width, " elements (expand * hidden_size)"));
  }
  config->mixers.assign(static_cast<size_t>(config->num_layers), MixerKind::kMamba);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kNemotronHNames[] = {
    {kEmbedding, kAll, "embeddings"},
    {kAttentionNorm, kAll, "layers.#.norm"},
    {kMlpNorm, kAll, "layers.#.norm"},
    {kMambaIn, kAll, "layers.#.mixer.in_proj"},
    {kMambaConv, kAll, "layers.#.mixer.conv1d"},
    {.slot = kMambaConvBias, .part = kAll, .name = "layers.#.mixer.conv1d", .weight = ".bias"},
    {.slot = kMambaRate, .part = kAll, .name = "layers.#.mixer.A_log", .weight = ""},
    {.slot = kMambaTimeBias, .part = kAll, .name = "layers.#.mixer.dt_bias", .weight = ""},
    {.slot = kMambaSkip, .part = kAll, .name = "layers.#.mixer.D", .weight = ""},
    {kMambaNorm, kAll, "layers.#.mixer.norm"},
    {kMambaOut, kAll, "layers.#.mixer.out_proj"},
    {kQkv, kQuery, "layers.#.mixer.q_proj"},
    {kQkv, kKey, "layers.#.mixer.k_proj"},
    {kQkv, kValue, "layers.#.mixer.v_proj"},
    {kAttentionOut, kAll, "layers.#.mixer.o_proj"},
    {kMlpUp, kAll, "layers.#.mixer.up_proj"},
    {kMlpDown, kAll, "layers.#.mixer.down_proj"},
    {kRouter, kExperts, "layers.#.mixer.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.mixer.gate.e_score_correction_bias", .weight = ""},
    {kLatentIn, kAll, "layers.#.mixer.fc1_latent_proj"},
    {kLatentOut, kAll, "layers.#.mixer.fc2_latent_proj"},
    {kExpertUp, kAll, "layers.#.mixer.experts.@.up_proj"},
    {kExpertDown, kAll, "layers.#.mixer.experts.@.down_proj"},
    {kSharedUp, kAll, "layers.#.mixer.shared_experts.up_proj"},
    {kSharedDown, kAll, "layers.#.mixer.shared_experts.down_proj"},
    {kFinalNorm, kAll, "norm_f"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kNemotronHPrefixes[] = {"backbone.", "model.", ""};
// MLPs are as wide as their tensors: the lists of widths have those of the experts where a model has some.
void WriteGgufNemotronH(GgufConfigWriter* config) {
  (*config)["mamba_head_dim"] = WriteGgufMamba(config, kNemotronMamba);
  const std::string up = GgufTensorOfSome(*config, "ffn_up.weight");
  if (!up.empty()) (*config)["intermediate_size"] = config->RowsOf(up.c_str());
}

void WriteGgufNemotronExperts(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufNemotronH(config);
  WriteGgufRouting(config, 1, 1);
  const std::string latent = GgufTensorOfSome(*config, "ffn_latent_down.weight");
  if (!latent.empty()) (*config)["moe_latent_size"] = config->RowsOf(latent.c_str());
  (*config)["moe_shared_expert_intermediate_size"] =
      config->Required("expert_shared_feed_forward_length", 1, kMaxFfnDim);
}

constexpr GgufFieldName kNemotronHGgufFields[] = {{"block_count", "num_hidden_layers"},
                                                  {"embedding_length", "hidden_size"},
                                                  {"attention.head_count", "num_attention_heads"},
                                                  {"context_length", "max_position_embeddings"},
                                                  {kGgufRmsKey, "layer_norm_epsilon"}};
// No layer has positions: what files say of a rotation is not read.
constexpr GgufForm kNemotronHGguf[] = {{.name = "nemotron_h",
                                        .fields = kNemotronHGgufFields,
                                        .weights = gguf_names::kMambaTerms,
                                        .write_fields = &WriteGgufNemotronH,
                                        .partial_rotary_field = "partial_rotary_factor",
                                        .fixed_biases = true,
                                        .mixed_layers = true},
                                       {.name = "nemotron_h_moe",
                                        .fields = kNemotronHGgufFields,
                                        .weights = gguf_names::kMambaTerms,
                                        .write_fields = &WriteGgufNemotronExperts,
                                        .partial_rotary_field = "partial_rotary_factor",
                                        .fixed_biases = true,
                                        .experts = true,
                                        .mixed_layers = true}};
constexpr const char* kNemotronHTypes[] = {"nemotron_h"};

void WriteGgufMamba2(GgufConfigWriter* config) {
  const int64_t head_dim = WriteGgufMamba(config, kPlainMamba);
  const int64_t features = head_dim * config->Required("ssm.time_step_rank", 1, kMaxHeads);
  const int64_t hidden = config->Required("embedding_length", 1, kMaxHiddenDim);
  if (features % hidden != 0) {
    config->fields().Fail(config->Key("ssm.inner_size"),
                          absl::StrCat("is ", features, ", not a multiple of embedding_length ", hidden));
  }
  (*config)["head_dim"] = head_dim;
  (*config)["expand"] = features / hidden;
}

// The context of files is a million tokens, which says nothing.
constexpr GgufFieldName kMamba2GgufFields[] = {
    {"block_count", "num_hidden_layers"}, {"embedding_length", "hidden_size"}, {kGgufRmsKey, "layer_norm_epsilon"}};
constexpr GgufForm kMamba2Gguf[] = {{.name = "mamba2",
                                     .fields = kMamba2GgufFields,
                                     .weights = gguf_names::kMambaTerms,
                                     .write_fields = &WriteGgufMamba2,
                                     .fixed_biases = true,
                                     .no_heads = true}};
constexpr const char* kMamba2Types[] = {"mamba2"};

}  // namespace

extern const Architecture kNemotronH = {.name = "nemotron_h",
                                        .model_types = kNemotronHTypes,
                                        .parse_config = &ParseNemotronH,
                                        .names = {.prefixes = kNemotronHPrefixes, .weights = kNemotronHNames},
                                        .gguf = kNemotronHGguf};
extern const Architecture kMamba2 = {.name = "mamba2",
                                     .model_types = kMamba2Types,
                                     .parse_config = &ParseMamba2,
                                     .names = {.prefixes = kNemotronHPrefixes, .weights = kNemotronHNames},
                                     .gguf = kMamba2Gguf};

}  // namespace dunlin::engine
