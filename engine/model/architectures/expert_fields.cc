// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/expert_fields.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {

void ParseExperts(JsonFields& fields, const ExpertDefaults& defaults, ModelConfig* config) {
  const char* count = "num_local_experts";
  for (const char* name : {"num_experts", "n_routed_experts"}) {
    if (!fields.Has(count) && fields.Has(name)) count = name;
  }
  const int64_t num_experts = fields.IntOr(count, 1, kMaxExperts, defaults.num_experts);
  const int64_t num_chosen = fields.IntOr("num_experts_per_tok", 1, num_experts, defaults.num_chosen);
  const int64_t width = defaults.default_width == 0
                            ? fields.Int(defaults.width, 1, kMaxFfnDim)
                            : fields.IntOr(defaults.width, 1, kMaxFfnDim, defaults.default_width);
  if (fields.status().ok() && num_chosen > num_experts) {
    return fields.Fail(absl::StrCat("num_experts_per_tok is ", num_chosen, " by default; limit is [1, ", num_experts, "]"));
  }
  config->routing.num_experts = static_cast<int32_t>(num_experts);
  config->routing.num_chosen = static_cast<int32_t>(num_chosen);
  config->expert_ffn_dim = static_cast<int32_t>(width);
}

void ParseSparseLayers(JsonFields& fields, ModelConfig* config) {
  const int64_t step = fields.IntOr("decoder_sparse_step", 1, kMaxLayers, 1);
  const std::vector<int64_t> dense = fields.IntListOr("mlp_only_layers", 0, kMaxLayers - 1, kMaxLayers);
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    config->dense_layers.push_back(listed || (layer + 1) % step != 0);
  }
}

}  // namespace dunlin::engine
