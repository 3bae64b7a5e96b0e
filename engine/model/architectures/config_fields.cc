// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/config_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

using kernels::ActivationKind;

constexpr size_t kMaxClassNames = 16;
constexpr int64_t kMaxLabels = 4096;

// Source: transformers 5.23, activations.py; the tanh variants are one formula.
struct ActivationName {
  const char* name;
  ActivationKind kind;
};
constexpr ActivationName kActivationNames[] = {
    {"gelu_new", ActivationKind::kGeluTanh},
    {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
    {"gelu_python_tanh", ActivationKind::kGeluTanh},
    {"gelu_fast", ActivationKind::kGeluTanh},
    {"gelu", ActivationKind::kGeluErf},
    {"gelu_python", ActivationKind::kGeluErf},
    {"relu", ActivationKind::kRelu},
    {"relu2", ActivationKind::kReluSquared},
    {"silu", ActivationKind::kSilu},
    {"swish", ActivationKind::kSilu},
};

}  // namespace

ActivationKind ParseActivation(JsonFields& fields, const char* name, const char* fallback) {
  const std::string text = fields.TextOr(name, fallback);
  std::string known;
  for (const ActivationName& row : kActivationNames) {
    if (text == row.name) return row.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  fields.Fail(absl::StrCat(name, " is '", text.substr(0, 32), "'; known: ", known));
  return ActivationKind::kGeluTanh;
}

void SetClampedGate(JsonFields& fields, ModelConfig* config) {
  const auto check = [&fields](const char* name, float built_in) {
    const double value = fields.NumberOr(name, 0.0, 1e6, static_cast<double>(built_in));
    if (fields.status().ok() && static_cast<float>(value) != built_in) {
      fields.Fail(absl::StrCat(name, " is ", value, "; must be ", built_in));
    }
  };
  check("swiglu_alpha", kernels::kClampedSwishSlope);
  check("swiglu_limit", kernels::kClampedSwishLimit);
  config->mlp.activation = ActivationKind::kClampedSwish;
}

void RefuseUnsupported(JsonFields& fields, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (fields.BoolOr(name, false)) fields.Fail(absl::StrCat(name, " is true, which is not supported"));
  }
}

const char* EitherName(const JsonFields& fields, const char* name, const char* other) {
  return !fields.Has(name) && fields.Has(other) ? other : name;
}

void SetLabels(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> classes = fields.TextListOr("architectures", kMaxClassNames);
  const auto classifies = [](const std::string& name) { return name.ends_with("ForSequenceClassification"); };
  if (std::none_of(classes.begin(), classes.end(), classifies)) return;
  const nlohmann::json* labels = fields.Object("id2label");
  const int64_t named = labels == nullptr ? 2 : static_cast<int64_t>(labels->size());
  const int64_t limit = std::min<int64_t>(kMaxLabels, config->hidden_dim);
  const int64_t count = fields.IntOr("num_labels", 1, limit, named);
  if (count < 1 || count > limit) fields.Fail(absl::StrCat("id2label has ", count, " entries; limit is 1 to ", limit));
  config->classifier.num_labels = static_cast<int32_t>(count);
}

void SetSizes(JsonFields& fields, int64_t default_context, ModelConfig* config, int64_t default_ffn,
              const char* context_field, int64_t default_vocab) {
  config->num_layers = static_cast<int32_t>(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("hidden_size", 1, kMaxHiddenDim));
  const bool absent = default_ffn > 0 && !fields.Has("intermediate_size");
  config->mlp.ffn_dim = static_cast<int32_t>(absent ? default_ffn : fields.Int("intermediate_size", 1, kMaxFfnDim));
  const bool no_vocab = default_vocab > 0 && !fields.Has("vocab_size");
  config->vocab_size = static_cast<int32_t>(no_vocab ? default_vocab : fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.IntOr(context_field, 1, kMaxContextTokens, default_context));
}

void SetHeads(JsonFields& fields, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, ModelConfig* config) {
  if (!fields.status().ok()) return;
  if (head_dim == 0 && config->hidden_dim % num_heads != 0) {
    fields.Fail(absl::StrCat("hidden size is ", config->hidden_dim, ", which ", num_heads, " heads do not divide"));
    return;
  }
  if (head_dim == 0) head_dim = config->hidden_dim / num_heads;
  if (num_heads % num_kv_heads != 0) {
    fields.Fail(absl::StrCat("num_key_value_heads is ", num_kv_heads, ", which does not divide ", num_heads, " heads"));
    return;
  }
  config->attention.num_heads = static_cast<int32_t>(num_heads);
  config->attention.num_kv_heads = static_cast<int32_t>(num_kv_heads);
  config->attention.head_dim = static_cast<int32_t>(head_dim);
  config->attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

void SetRotary(JsonFields& fields, const RotaryFields& names, ModelConfig* config) {
  SetRotary(fields, names, ParseRotaryScaling(fields, names, config->max_context), config);
}

void SetRotary(JsonFields& fields, const RotaryFields& names, const RotaryScaling& scaling, ModelConfig* config) {
  if (!fields.status().ok()) return;
  // Truncated, as transformers' int() does.
  const bool proportional = scaling.kind == RotaryScalingKind::kProportional;
  const double share = proportional ? 1.0 : scaling.partial_factor;
  const auto rotary_dim = static_cast<int32_t>(config->attention.head_dim * share);
  if (rotary_dim % 2 != 0 || rotary_dim == 0) {
    fields.Fail(rotary_dim == config->attention.head_dim
                    ? absl::StrCat("head_dim is ", config->attention.head_dim, "; rotary positions need an even one")
                    : absl::StrCat(names.partial_factor, " is ", scaling.partial_factor, ", which rotates ", rotary_dim,
                                   " of ", config->attention.head_dim,
                                   " dimensions; it must be an even number of them"));
    return;
  }
  if (const size_t factors = scaling.short_factors.size();
      factors != 0 && factors != static_cast<size_t>(rotary_dim / 2)) {
    return fields.Fail(absl::StrCat("short_factor has ", factors, " entries; must have ", rotary_dim / 2));
  }
  config->max_context = static_cast<int32_t>(scaling.max_context);
  config->rotary.dim = rotary_dim;
  config->rotary.inv_freq = InverseFrequencies(scaling, rotary_dim);
  config->rotary.attention_factors = {RotaryAttentionFactor(scaling)};
  config->rotary.axes = RotationAxes(fields, scaling, names.sections, rotary_dim);
}

void SetQueryScale(JsonFields& fields, ModelConfig* config) {
  const nlohmann::json* rope = fields.Object("rope_parameters");
  if (rope == nullptr) fields.Fail("rope_parameters is missing");
  if (!fields.status().ok()) return;
  JsonFields scale(*rope, absl::StrCat(fields.where(), ": rope_parameters"));
  AttentionSpec& attention = config->attention;
  attention.query_scale_beta = static_cast<float>(scale.NumberOr("llama_4_scaling_beta", 0.0, 1e3, 0.0));
  if (attention.query_scale_beta > 0.0F) {
    attention.query_scale_period =
        static_cast<int32_t>(scale.Int("original_max_position_embeddings", 1, kMaxContextTokens));
  }
  fields.Adopt(scale.status());
}

void AddFrequencies(const RotaryScaling& scaling, int32_t dim, RotarySpec* rotary) {
  const std::vector<float> frequencies = InverseFrequencies(scaling, dim);
  rotary->inv_freq.insert(rotary->inv_freq.end(), frequencies.begin(), frequencies.end());
  rotary->attention_factors.push_back(RotaryAttentionFactor(scaling));
}

void AddRotation(const RotaryScaling& scaling, int32_t dim, RotarySpec* rotary) {
  rotary->dims.push_back(dim);
  rotary->dim = std::max(rotary->dim, dim);
  AddFrequencies(scaling, dim, rotary);
}

void AddSlidingRotary(JsonFields& fields, const RotaryFields& names, bool old_style, const std::vector<bool>& sliding,
                      ModelConfig* config) {
  RotaryScaling scaling;
  if (old_style) {
    scaling.theta = fields.NumberOr(names.theta, 2.0, 1e12, names.default_theta);
  } else {
    scaling = ParseRotaryScaling(fields, names, config->max_context);
  }
  if (!fields.status().ok()) return;
  if (scaling.kind == RotaryScalingKind::kLongrope) return fields.Fail("rope_type longrope is not supported here");
  AddFrequencies(scaling, config->rotary.dim, &config->rotary);
  for (const bool slides : sliding) config->rotary.layer_index.push_back(slides ? 1 : 0);
}

}  // namespace dunlin::engine
