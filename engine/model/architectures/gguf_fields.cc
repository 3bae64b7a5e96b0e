// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/gguf_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {

void WriteGgufWindow(GgufConfigWriter* config) {
  if (config->Window() > 0) (*config)["sliding_window"] = config->Window();
}

void RequireGgufWindow(GgufConfigWriter* config) {
  config->Required("attention.sliding_window", 1, kMaxContextTokens);
}

int64_t GgufHeadsOfKind(GgufConfigWriter* config, const char* key, const std::vector<bool>& sliding, bool slides) {
  const std::vector<int64_t> heads = config->OfLayers(key, 1, kMaxHeads);
  int64_t of_kind = 0;
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    if (sliding[layer] != slides) continue;
    if (of_kind != 0 && heads[layer] != of_kind) {
      config->fields().Fail(config->Key(key), absl::StrCat("is ", heads[layer], " in layer ", layer,
                                                           "; other layers of its kind have ", of_kind));
    }
    of_kind = heads[layer];
  }
  return of_kind == 0 ? heads.front() : of_kind;
}

double GgufQueryScalar(GgufConfigWriter* config, int64_t layers_of_27b) {
  const double scale = config->fields().Number(config->Key("attention.scale")).value_or(0.0);
  if (scale > 0.0) return 1.0 / (scale * scale);
  if (config->num_layers() != layers_of_27b) return static_cast<double>(config->head_dim());
  const int64_t hidden = config->Required("embedding_length", 1, kMaxHiddenDim);
  const int64_t per_head = hidden / config->Required("attention.head_count", 1, kMaxHeads);
  return static_cast<double>(per_head);
}

void WriteGgufRouting(GgufConfigWriter* config, int64_t num_groups, int64_t chosen_groups) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  config->Copy("expert_shared_count", "n_shared_experts");
  (*config)["first_k_dense_replace"] = 0;
  config->Copy("leading_dense_block_count", "first_k_dense_replace");
  (*config)["n_group"] = num_groups;
  config->Copy("expert_group_count", "n_group");
  (*config)["topk_group"] = chosen_groups;
  config->Copy("expert_group_used_count", "topk_group");
  config->CopyOr("expert_weights_scale", "routed_scaling_factor", 1.0);
  (*config)["norm_topk_prob"] = false;
  config->CopyFlag("expert_weights_norm", "norm_topk_prob");
}

void RequireGgufSigmoidGating(GgufConfigWriter* config) {
  const std::string gating = config->Key("expert_gating_func");
  const int64_t function = config->fields().Int(gating, 0, 255).value_or(0);
  if (function == 0 || function == kGgufSigmoidGating) return;
  config->fields().Fail(gating, absl::StrCat("is ", function, "; must be 2 (sigmoid)"));
}

void WriteGgufQueryScale(GgufConfigWriter* config, double beta, double mscale) {
  const int64_t period = config->Required("rope.scaling.original_context_length", 1, kMaxContextTokens);
  const std::string length = config->Key("attention.temperature_length");
  if (config->fields().Int(length, 0, kMaxContextTokens).value_or(period) != period) {
    config->fields().Fail(length, absl::StrCat("is not rope.scaling.original_context_length, ", period));
  }
  GgufConfigWriter::Json rope = (*config)["rope_scaling"];
  if (!rope.is_object()) rope = GgufConfigWriter::Json::object();
  rope["mscale"] = rope["mscale_all_dim"] = mscale;
  rope["llama_4_scaling_beta"] = beta;
  rope["rope_theta"] = (*config)["rope_theta"];
  (*config)["rope_parameters"] = rope;
  (*config)["rope_scaling"] = nullptr;
}

void RefuseGgufSharedExperts(GgufConfigWriter* config) {
  const std::string key = config->Key("expert_shared_feed_forward_length");
  if (config->fields().Int(key, 0, kMaxFfnDim).value_or(0) == 0) return;
  config->fields().Fail(key, "is above 0: shared experts are not supported in this architecture");
}

void RefuseGgufTensor(GgufConfigWriter* config, const std::string& tensor, const char* what) {
  if (config->HasTensor(tensor)) config->fields().Fail(tensor, absl::StrCat("is there: ", what, " is not supported"));
}

void WriteGgufMultipliers(GgufConfigWriter* config) {
  config->CopyOr("attention.scale", "attention_multiplier", 1.0 / std::sqrt(static_cast<double>(config->head_dim())));
  config->Copy("embedding_scale", "embedding_multiplier");
  config->Copy("residual_scale", "residual_multiplier");
  config->Copy("logit_scale", "logits_scaling");
}

void WriteGgufGranite(GgufConfigWriter* config) {
  WriteGgufMultipliers(config);
  if (!config->fields().Bool(config->Key("rope.scaling.finetuned")).value_or(true)) {
    config->fields().Fail(config->Key("rope.scaling.finetuned"),
                          "is false: layers without positions are not supported");
  }
}

void WriteGgufBert(GgufConfigWriter* config) {
  if (const int64_t types = config->RowsOf("token_types.weight"); types > 0) (*config)["type_vocab_size"] = types;
  if (config->fields().Bool(config->Key("attention.causal")).value_or(false)) {
    config->fields().Fail(config->Key("attention.causal"), "is true, which is not supported");
  }
}

}  // namespace dunlin::engine
