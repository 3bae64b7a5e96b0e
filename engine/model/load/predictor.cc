// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/predictor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/renamed_tensors.h"
#include "engine/model/spec/attention_shape.h"

namespace dunlin::engine {
namespace {

// What the layer is not served with; empty: nothing.
const char* Hindrance(const ModelConfig& config) {
  const AttentionSpec& attention = config.attention;
  if (config.is_encoder()) return "it is an encoder";
  if (config.norm.placement != NormPlacement::kPre || config.parallel_residual || config.single_terms) {
    return "its layers are not two terms with a norm before each";
  }
  if (attention.has_indexer()) return "its attention is sparse";
  if (attention.is_compressed()) return "its attention goes over entries of groups of tokens";
  if (config.head.scale != 1.0F) return "its logits have a factor";
  if (!attention.sink_layers.empty()) return "some of its layers have attention sinks";
  const bool differ = !attention.layer_heads.empty() || !attention.layer_windows.empty() ||
                      !config.rotary.layer_index.empty() || !config.mlp.limits.empty() ||
                      !config.experts.limits.empty();
  if (!attention.kv_sources.empty() || !attention.keys_as_values.empty() || !config.mlp.layer_dims.empty() ||
      !config.norm.pre_layers.empty() || (differ && config.predictor.like_layer < 0)) {
    return "its layers differ, and which of them the layer is like is not known";
  }
  if (config.embedding.learned_positions || config.has_layer_inputs()) return "tokens have more than their embedding";
  return "";
}

// One more entry of a list by layer, where there is a list.
template <typename Value>
void Extend(std::vector<Value>* list, Value value) {
  if (!list->empty()) list->push_back(value);
}

// The same of limits, of which there is a list where one is not 0.
void ExtendLimits(std::vector<float>* limits, float limit, int32_t num_layers) {
  if (limit > 0.0F) limits->resize(static_cast<size_t>(num_layers));
  Extend(limits, limit);
}

// One more, as that of a layer.
template <typename Value>
void Repeat(std::vector<Value>* list, int32_t layer) {
  if (!list->empty()) list->push_back(list->at(static_cast<size_t>(layer)));
}

}  // namespace

// Attention and, of a model with experts, these: what such layers have in every published family.
absl::Status AddPredictorLayer(ModelConfig* config) {
  const char* const hindrance = Hindrance(*config);
  if (*hindrance != '\0') {
    return absl::FailedPreconditionError(absl::StrCat("models[].speculation.draft is \"mtp\", which is not served for ",
                                                      config->architecture, ": ", hindrance));
  }
  config->num_predictors = 1;
  const PredictorSpec& predictor = config->predictor;
  Extend(&config->mixers, MixerKind::kAttention);
  Extend(&config->experts.dense_layers, predictor.dense);
  ExtendLimits(&config->experts.limits, predictor.expert_limit, config->num_layers);
  ExtendLimits(&config->mlp.limits, predictor.mlp_limit, config->num_layers);
  Repeat(&config->attention.layer_heads, predictor.like_layer);
  Repeat(&config->attention.layer_windows, predictor.like_layer);
  Repeat(&config->rotary.layer_index, predictor.like_layer);
  return absl::OkStatus();
}

absl::Status FindPredictorTensors(const std::string& prefix, std::unique_ptr<TensorSource>* tensors,
                                  ModelConfig* config) {
  const std::string layer = absl::StrCat(prefix, "layers.", config->num_layers, ".");
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"mtp.layers.0.", ""},
      {"mtp.fc.", "eh_proj."},
      {"mtp.pre_fc_norm_embedding.", "enorm."},
      {"mtp.pre_fc_norm_hidden.", "hnorm."},
      {"mtp.norm.", "shared_head.norm."},
  };
  std::vector<RenamedPrefix> prefixes;
  for (const std::string& stem : {std::string(), std::string("model."), prefix}) {
    for (const auto& [stored, name] : kNames) prefixes.push_back({stem + stored, layer + name});
  }
  // Step 3.5's, whose head is its own.
  for (const char* stem : {"transformer.shared_head.", "shared_head."}) {
    prefixes.push_back({absl::StrCat(layer, stem, "output."), layer + "shared_head.head."});
  }
  prefixes.push_back({layer + "transformer.shared_head.", layer + "shared_head."});
  *tensors = std::make_unique<RenamedTensors>(std::move(*tensors), prefixes);
  if ((*tensors)->Find(layer + "shared_head.head.weight") == nullptr) config->predictor.own_head = false;
  if ((*tensors)->Find(layer + "eh_proj.weight") != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "models[].speculation.draft is \"mtp\", but the checkpoint has no layer that predicts further tokens: ",
      "neither mtp.fc.weight nor ", layer, "eh_proj.weight"));
}

}  // namespace dunlin::engine
