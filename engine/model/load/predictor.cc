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
  if (!attention.layer_heads.empty() || !attention.kv_sources.empty() || !attention.layer_windows.empty() ||
      !attention.keys_as_values.empty() || !config.rotary.layer_index.empty() || !config.mlp.layer_dims.empty()) {
    return "its layers differ";
  }
  if (config.embedding.learned_positions || config.has_layer_inputs()) return "tokens have more than their embedding";
  return "";
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
  if (!config->mixers.empty()) config->mixers.push_back(MixerKind::kAttention);
  if (!config->experts.dense_layers.empty()) config->experts.dense_layers.push_back(false);
  return absl::OkStatus();
}

absl::Status FindPredictorTensors(const ModelConfig& config, const std::string& prefix,
                                  std::unique_ptr<TensorSource>* tensors) {
  const std::string layer = absl::StrCat(prefix, "layers.", config.num_layers, ".");
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
  *tensors = std::make_unique<RenamedTensors>(std::move(*tensors), prefixes);
  if ((*tensors)->Find(layer + "eh_proj.weight") != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "models[].speculation.draft is \"mtp\", but the checkpoint has no layer that predicts further tokens: ",
      "neither mtp.fc.weight nor ", layer, "eh_proj.weight"));
}

}  // namespace dunlin::engine
