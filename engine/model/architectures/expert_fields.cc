// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/expert_fields.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxModelExperts = 1 << 16;  // of all layers; published models have up to 24,000

void ParseScale(JsonFields& fields, const GroupDefaults& defaults, kernels::ExpertRouting* routing) {
  routing->scale = static_cast<float>(fields.NumberOr(defaults.scale_field, 1e-6, 1e6, defaults.scale));
}

// n_group and topk_group.
void ParseGroups(JsonFields& fields, const GroupDefaults& defaults, kernels::ExpertRouting* routing) {
  const int64_t num_groups = fields.IntOr(defaults.groups_field, 1, kMaxExperts, defaults.num_groups);
  const int64_t chosen_groups = fields.IntOr("topk_group", 1, num_groups, std::min(defaults.chosen_groups, num_groups));
  if (!fields.status().ok()) return;
  if (routing->num_experts % num_groups != 0) {
    return fields.Fail(absl::StrCat(defaults.groups_field, " is ", num_groups, ", which does not divide ",
                                    routing->num_experts, " experts"));
  }
  const int64_t open = routing->num_experts / num_groups * chosen_groups;
  if (routing->num_chosen > open) {
    return fields.Fail(absl::StrCat(defaults.chosen_field, " is ", routing->num_chosen, "; the ", chosen_groups,
                                    " groups of topk_group hold ", open, " experts"));
  }
  routing->num_groups = static_cast<int32_t>(num_groups);
  routing->num_chosen_groups = static_cast<int32_t>(chosen_groups);
}

}  // namespace

void ParseExperts(JsonFields& fields, const ExpertDefaults& defaults, ModelConfig* config) {
  const char* count = defaults.count_field == nullptr ? "num_local_experts" : defaults.count_field;
  for (const char* name : {"num_experts", "n_routed_experts"}) {
    if (defaults.count_field == nullptr && !fields.Has(count) && fields.Has(name)) count = name;
  }
  const int64_t num_experts = fields.IntOr(count, 1, kMaxExperts, defaults.num_experts);
  const int64_t num_chosen = fields.IntOr(defaults.chosen_field, 1, num_experts, defaults.num_chosen);
  const int64_t width = defaults.default_width == 0
                            ? fields.Int(defaults.width, 1, kMaxFfnDim)
                            : fields.IntOr(defaults.width, 1, kMaxFfnDim, defaults.default_width);
  if (fields.status().ok() && num_chosen > num_experts) {
    return fields.Fail(
        absl::StrCat(defaults.chosen_field, " is ", num_chosen, " by default; limit is [1, ", num_experts, "]"));
  }
  CheckExpertCount(fields, count, num_experts, *config);
  config->experts.routing.num_experts = static_cast<int32_t>(num_experts);
  config->experts.routing.num_chosen = static_cast<int32_t>(num_chosen);
  config->experts.ffn_dim = static_cast<int32_t>(width);
}

void CheckExpertCount(JsonFields& fields, const char* name, int64_t num_experts, const ModelConfig& config) {
  if (!fields.status().ok() || config.num_layers * num_experts <= kMaxModelExperts) return;
  fields.Fail(absl::StrCat(name, " is ", num_experts, " in ", config.num_layers, " layers; limit is ", kMaxModelExperts,
                           " experts in all"));
}

void ParseSharedExperts(JsonFields& fields, const char* name, int64_t fallback, ModelConfig* config) {
  const int64_t limit = kMaxFfnDim / std::max(config->experts.ffn_dim, 1);
  config->experts.shared_ffn_dim =
      config->experts.ffn_dim * static_cast<int32_t>(fields.IntOr(name, 1, limit, fallback));
}

void ParseDenseLayers(JsonFields& fields, int64_t fallback, ModelConfig* config) {
  const int64_t first_sparse = fields.IntOr("first_k_dense_replace", 0, kMaxLayers, fallback);
  const std::vector<std::string> types = fields.TextListOr("mlp_layer_types", kMaxLayers);
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!types.empty() && types.size() != num_layers) {
    return fields.Fail(
        absl::StrCat("mlp_layer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const bool dense = types.empty() ? static_cast<int64_t>(layer) < first_sparse : types[layer] == "dense";
    if (!types.empty() && !dense && types[layer] != "sparse") {
      return fields.Fail(
          absl::StrCat("mlp_layer_types[", layer, "] is '", types[layer].substr(0, 32), "'; known: dense, sparse"));
    }
    config->experts.dense_layers.push_back(dense);
  }
}

void ParseGroupedRouting(JsonFields& fields, const GroupDefaults& defaults, ModelConfig* config) {
  kernels::ExpertRouting& routing = config->experts.routing;
  RefuseOtherThan(fields, "scoring_func", "sigmoid");
  routing.scoring = kernels::ExpertScoring::kSigmoid;
  routing.group_scoring = kernels::GroupScoring::kTwoLargest;
  routing.normalized = fields.BoolOr(defaults.normalized_field, defaults.normalized);
  ParseScale(fields, defaults, &routing);
  config->experts.router_correction = true;
  ParseGroups(fields, defaults, &routing);
}

void ParseGroupedSoftmax(JsonFields& fields, ModelConfig* config) {
  const GroupDefaults defaults;
  kernels::ExpertRouting& routing = config->experts.routing;
  RefuseOtherThan(fields, "scoring_func", "softmax");
  routing.group_scoring = kernels::GroupScoring::kTwoLargest;
  routing.normalized = fields.BoolOr(defaults.normalized_field, defaults.normalized);
  ParseScale(fields, defaults, &routing);
  ParseGroups(fields, defaults, &routing);
}

void ParseGroupLimitedRouting(JsonFields& fields, ModelConfig* config) {
  const GroupDefaults defaults;
  RefuseOtherThan(fields, "scoring_func", "softmax");
  ParseScale(fields, defaults, &config->experts.routing);
  const std::string method = fields.TextOr("topk_method", "greedy");
  if (method == "group_limited_greedy") return ParseGroups(fields, defaults, &config->experts.routing);
  if (method == "greedy") return;
  fields.Fail(absl::StrCat("topk_method is '", method.substr(0, 32), "'; known: greedy, group_limited_greedy"));
}

void RefuseOtherThan(JsonFields& fields, const char* name, const char* only) {
  const std::string text = fields.TextOr(name, only);
  if (text != only) fields.Fail(absl::StrCat(name, " is '", text.substr(0, 32), "'; known: ", only));
}

void ParseSparseLayers(JsonFields& fields, ModelConfig* config) {
  const int64_t step = fields.IntOr("decoder_sparse_step", 1, kMaxLayers, 1);
  const std::vector<int64_t> dense = fields.IntListOr("mlp_only_layers", 0, kMaxLayers - 1, kMaxLayers);
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    config->experts.dense_layers.push_back(listed || (layer + 1) % step != 0);
  }
}

}  // namespace dunlin::engine
