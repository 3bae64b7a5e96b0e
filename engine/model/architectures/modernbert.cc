// SPDX-License-Identifier: Apache-2.0
// ModernBERT: a pre-norm encoder without biases, with a norm after the embedding and none before the first attention,
// GeGLU, and rotary positions. Every third layer sees all tokens, the others those near by, with a rotation of their
// own. A sequence classifier's head has an activation and a norm, and may read the mean of the hidden states.
// Source: transformers 5.23, models/modernbert; Warner et al. 2024.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kGlobalRotary = {
    .theta = "global_rope_theta", .default_theta = 160000.0, .nested = "full_attention"};
constexpr RotaryFields kModernBertLocalRotary = {.theta = "local_rope_theta", .nested = "sliding_attention"};
constexpr int64_t kModernBertDefaultPattern = 3;
constexpr int64_t kDefaultLocalTokens = 128;

void ParseClassifier(JsonFields& fields, ModelConfig* config) {
  SetLabels(fields, config);
  if (config->classifier.num_labels == 0) return;
  const std::string pooling = fields.TextOr("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    fields.Fail(absl::StrCat("classifier_pooling is '", pooling.substr(0, 32), "'; known: cls, mean"));
  }
  config->classifier.mean = pooling == "mean";
  config->classifier.norm = true;
  config->classifier.activation = ParseActivation(fields, "classifier_activation", "gelu");
  config->classifier.dense_bias = fields.BoolOr("classifier_bias", false);
}

void ParseModernBert(JsonFields& fields, ModelConfig* config) {
  config->kind = ModelKind::kEncoder;
  config->attention.causal = false;
  SetSizes(fields, 8192, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("norm_eps", 1e-12, 1.0, 1e-5));
  config->norm.bias = fields.BoolOr("norm_bias", false);
  config->embedding.norm = config->norm.first_absent = true;
  config->mlp.activation = ParseActivation(fields, "hidden_activation", "gelu");
  config->mlp.gated = true;
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  ParseClassifier(fields, config);
  SetRotary(fields, kGlobalRotary, config);
  // Of local_attention tokens a token sees half to each side, and itself.
  const int64_t local = fields.IntOr("local_attention", 1, kMaxContextTokens, kDefaultLocalTokens);
  const int64_t full_every = fields.IntOr("global_attn_every_n_layers", 1, kMaxLayers, kModernBertDefaultPattern);
  const std::vector<bool> sliding =
      SetWindows(fields, 2 * (local / 2) + 1, {.full_every = full_every, .full_first = true}, config);
  const bool old_style = !fields.Has("rope_parameters");
  if (fields.status().ok()) AddSlidingRotary(fields, kModernBertLocalRotary, old_style, sliding, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kModernBertWeights[] = {
    {kEmbedding, kAll, "embeddings.tok_embeddings"},
    {kEmbeddingNorm, kAll, "embeddings.norm"},
    {kAttentionNorm, kAll, "layers.#.attn_norm"},
    {kQkv, kAll, "layers.#.attn.Wqkv"},
    {kAttentionOut, kAll, "layers.#.attn.Wo"},
    {kMlpNorm, kAll, "layers.#.mlp_norm"},
    {kMlpUp, kAll, "layers.#.mlp.Wi"},
    {kMlpDown, kAll, "layers.#.mlp.Wo"},
    {kFinalNorm, kAll, "final_norm"},
    {kClassifierDense, kAll, "head.dense", false},
    {kClassifierNorm, kAll, "head.norm", false},
    {kClassifierOut, kAll, "classifier", false},
};
constexpr const char* kModernBertTypes[] = {"modernbert"};
constexpr const char* kModernBertPrefixes[] = {"model.", ""};
// The heads of language models and classifiers.
constexpr const char* kModernBertUnused[] = {"head.dense.weight", "head.dense.bias", "head.norm.weight",
                                             "head.norm.bias",    "decoder.weight",  "decoder.bias",
                                             "classifier.weight", "classifier.bias"};

constexpr uint64_t kMaxActivationBytes = 64;

// The norm's epsilon has one of two keys.
void WriteGgufModernBert(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 3;
  config->Copy("attention.layer_norm_rms_epsilon", "norm_eps");
  config->Copy("attention.layer_norm_epsilon", "norm_eps");
  RequireGgufWindow(config);
  config->WriteWindows("local_attention", kPeriod, /*full_first=*/true);
  config->CopyOr("rope.freq_base_swa", "local_rope_theta", kGgufLocalTheta);
  const std::string activation = config->fields().Text(config->Key("hidden_activation"), kMaxActivationBytes);
  if (!activation.empty()) (*config)["hidden_activation"] = activation;
}

constexpr auto kModernBertGgufFields = GgufFieldNames(kGgufNormKey, "norm_eps", "global_rope_theta");
constexpr GgufForm kModernBertGguf[] = {{.name = "modern-bert",
                                         .fields = kModernBertGgufFields,
                                         .weights = gguf_names::kPlainFused,
                                         .write_fields = &WriteGgufModernBert,
                                         .head_dim_follows = true,
                                         .fixed_biases = true}};

}  // namespace

extern const Architecture kModernBert = {.name = "modernbert",
                                         .model_types = kModernBertTypes,
                                         .parse_config = &ParseModernBert,
                                         .names = {kModernBertPrefixes, kModernBertWeights, kModernBertUnused},
                                         .gguf = kModernBertGguf};

}  // namespace dunlin::engine
