// SPDX-License-Identifier: Apache-2.0
// Config fields of mixtures of experts. Errors are recorded in `fields`.
#pragma once

#include <cstdint>

#include "engine/base/json_fields.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// transformers' names and defaults.
struct ExpertDefaults {
  int64_t num_experts;
  int64_t num_chosen;                       // of chosen_field
  const char* width = "intermediate_size";  // the field that holds an expert's width
  int64_t default_width = 0;                // 0: the field is required
  const char* chosen_field = "num_experts_per_tok";
  const char* count_field = nullptr;  // null: num_local_experts, num_experts or n_routed_experts
};

// The number of experts (num_local_experts, num_experts or n_routed_experts: one field to transformers), those of a
// token, and their width. The rule of the router is softmax over all experts; callers change it.
void ParseExperts(JsonFields& fields, const ExpertDefaults& defaults, ModelConfig* config);

// Refuses more experts of all layers than a model may have. REQUIRES: num_layers is set.
void CheckExpertCount(JsonFields& fields, const char* name, int64_t num_experts, const ModelConfig& config);

// decoder_sparse_step and mlp_only_layers: which layers have one dense MLP. REQUIRES: num_layers is set.
void ParseSparseLayers(JsonFields& fields, ModelConfig* config);

// `name`: how many shared experts there are, of the width of the others; they are one MLP. REQUIRES: ParseExperts has
// been called.
void ParseSharedExperts(JsonFields& fields, const char* name, int64_t fallback, ModelConfig* config);

// Which layers have one dense MLP: mlp_layer_types ("dense" or "sparse" of each layer), or else the first
// first_k_dense_replace. REQUIRES: num_layers is set.
void ParseDenseLayers(JsonFields& fields, int64_t fallback, ModelConfig* config);

// transformers' defaults.
struct GroupDefaults {
  int64_t num_groups = 1;     // n_group
  int64_t chosen_groups = 1;  // topk_group
  double scale = 1.0;         // of the chosen experts' weights
  const char* scale_field = "routed_scaling_factor";
  bool normalized = true;  // norm_topk_prob
  const char* groups_field = "n_group";
  const char* normalized_field = "norm_topk_prob";
  const char* chosen_field = "num_experts_per_tok";  // for messages
};

// DeepSeek V3's rule: scoring_func (sigmoid), n_group, topk_group, norm_topk_prob,
// routed_scaling_factor, and a correction of the scores that choose. REQUIRES: ParseExperts has been called.
void ParseGroupedRouting(JsonFields& fields, const GroupDefaults& defaults, ModelConfig* config);

// Mistral 4's rule: softmax scores of all experts, n_group, topk_group, norm_topk_prob and routed_scaling_factor, by
// the groups of V3. REQUIRES: as above.
void ParseGroupedSoftmax(JsonFields& fields, ModelConfig* config);

// DeepSeek V2's rule: scoring_func (softmax), topk_method (greedy, or group_limited_greedy with n_group and topk_group)
// and routed_scaling_factor. REQUIRES: as above.
void ParseGroupLimitedRouting(JsonFields& fields, ModelConfig* config);

// Refuses a text field that is there and not `only`.
void RefuseOtherThan(JsonFields& fields, const char* name, const char* only);

}  // namespace dunlin::engine
