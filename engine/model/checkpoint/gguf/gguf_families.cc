// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_families.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kMaxFamilyWordBytes = 64;
constexpr double kLocalTheta = 10000.0;  // of sliding layers, where files do not say
constexpr int64_t kSigmoidGating = 2;    // expert_gating_func

// Gemma divides queries by the root of this. Without the key, of the published sizes only 27B has another number than a
// head's size: it is told by its layers. Source: llama.cpp, src/models/gemma2.cpp, gemma3.cpp.
double QueryScalar(GgufConfigWriter* config, int64_t layers_of_27b) {
  const double scale = config->fields().Number(config->Key("attention.scale")).value_or(0.0);
  if (scale > 0.0) return 1.0 / (scale * scale);
  if (config->num_layers() != layers_of_27b) return static_cast<double>(config->head_dim());
  const int64_t hidden = config->Required("embedding_length", 1, kMaxHiddenDim);
  const int64_t per_head = hidden / config->Required("attention.head_count", 1, kMaxHeads);
  return static_cast<double>(per_head);
}

void RefuseTensor(GgufConfigWriter* config, const std::string& tensor, const char* what) {
  if (config->HasTensor(tensor)) config->fields().Fail(tensor, absl::StrCat("is there: ", what, " is not supported"));
}

void RefuseSharedExperts(GgufConfigWriter* config) {
  const std::string key = config->Key("expert_shared_feed_forward_length");
  if (config->fields().Int(key, 0, kMaxFfnDim).value_or(0) == 0) return;
  config->fields().Fail(key, "is above 0: shared experts are not supported in this architecture");
}

// DeepSeek's rules. num_groups and chosen_groups: where the file has none.
void WriteRouting(GgufConfigWriter* config, int64_t num_groups, int64_t chosen_groups) {
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

// A window without which the family's positions have no meaning.
void RequireWindow(GgufConfigWriter* config) {
  config->Required("attention.sliding_window", 1, kMaxContextTokens);
}

void RefuseVariantsOfDeepseek2(GgufConfigWriter* config, bool sigmoid) {
  GgufFields& fields = config->fields();
  const std::string temperature = config->Key("attention.temperature_scale");
  if (fields.Number(temperature).value_or(0.0) != 0.0) {
    fields.Fail(temperature, "is not 0: scores scaled by position are not supported");
  }
  const int64_t first_sparse = config->Required("leading_dense_block_count", 0, kMaxLayers);
  config->Required("expert_shared_count", 1, kMaxFfnDim);
  if (sigmoid) return;
  RefuseTensor(config, absl::StrCat("blk.", first_sparse, ".exp_probs_b.bias"),
               "a correction of softmax scores (expert_gating_func is not 2)");
  const std::string norm = config->Key("expert_weights_norm");
  if (fields.Bool(norm).value_or(false)) fields.Fail(norm, "is true, which is not supported with softmax gating");
}

}  // namespace

// Files of Mistral's first release name no architecture of their own.
void WriteGgufLlama(GgufConfigWriter* config) {
  if (config->Window() == 0) return;
  (*config)["model_type"] = "mistral";
  (*config)["sliding_window"] = config->Window();
}

void WriteGgufWindow(GgufConfigWriter* config) {
  if (config->Window() > 0) (*config)["sliding_window"] = config->Window();
}

void WriteGgufMixtral(GgufConfigWriter* config) {
  RefuseSharedExperts(config);
  (*config)["intermediate_size"] = config->Required("feed_forward_length", 1, kMaxFfnDim);
  WriteGgufWindow(config);
}

void WriteGgufGptNeoX(GgufConfigWriter* config) {
  (*config)["use_parallel_residual"] = true;
  config->CopyFlag("use_parallel_residual", "use_parallel_residual");
}

void WriteGgufGemma2(GgufConfigWriter* config) {
  constexpr int64_t kLayersOf27B = 46;
  config->Copy("attention.sliding_window", "sliding_window");
  config->Copy("attn_logit_softcapping", "attn_logit_softcapping");
  config->Copy("final_logit_softcapping", "final_logit_softcapping");
  (*config)["query_pre_attn_scalar"] = QueryScalar(config, kLayersOf27B);
}

void WriteGgufGemma3(GgufConfigWriter* config) {
  constexpr int64_t kLayersOf27B = 62;
  constexpr int64_t kPeriod = 6;
  config->WriteWindows("sliding_window", kPeriod);
  config->CopyOr("rope.freq_base_swa", "rope_local_base_freq", kLocalTheta);
  config->Copy("final_logit_softcapping", "final_logit_softcapping");
  (*config)["query_pre_attn_scalar"] = QueryScalar(config, kLayersOf27B);
}

void WriteGgufQwen2Moe(GgufConfigWriter* config) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  config->Copy("feed_forward_length", "shared_expert_intermediate_size");
  config->Copy("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
}

void WriteGgufQwen3Moe(GgufConfigWriter* config) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  (*config)["norm_topk_prob"] = true;  // of every published model; files do not say
}

// The ramp of its YaRN scaling is not rounded to whole dimensions, which files do not say.
void WriteGgufGptOss(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 2;
  RequireWindow(config);
  config->WriteWindows("sliding_window", kPeriod);
  config->Copy("expert_feed_forward_length", "intermediate_size");
  GgufConfigWriter::Json& scaling = (*config)["rope_scaling"];
  if (scaling.is_object()) scaling["truncate"] = false;
}

void WriteGgufGranite(GgufConfigWriter* config) {
  config->CopyOr("attention.scale", "attention_multiplier", 1.0 / std::sqrt(static_cast<double>(config->head_dim())));
  config->Copy("embedding_scale", "embedding_multiplier");
  config->Copy("residual_scale", "residual_multiplier");
  config->Copy("logit_scale", "logits_scaling");
  if (!config->fields().Bool(config->Key("rope.scaling.finetuned")).value_or(true)) {
    config->fields().Fail(config->Key("rope.scaling.finetuned"),
                          "is false: layers without positions are not supported");
  }
}

void WriteGgufGraniteMoe(GgufConfigWriter* config) {
  RefuseSharedExperts(config);
  WriteGgufGranite(config);
}

// OLMo 3 is OLMo 2 with windows.
void WriteGgufOlmo2(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  if (config->Window() == 0) return;
  (*config)["model_type"] = "olmo3";
  config->WriteWindows("sliding_window", kPeriod);
}

void WriteGgufGlm4Moe(GgufConfigWriter* config) {
  const std::string gating = config->Key("expert_gating_func");
  if (const int64_t function = config->fields().Int(gating, 0, 255).value_or(0); function > 0) {
    if (function != kSigmoidGating)
      config->fields().Fail(gating, absl::StrCat("is ", function, "; must be 2 (sigmoid)"));
  }
  WriteRouting(config, 1, 1);
  (*config)["use_qk_norm"] = config->HasTensor("blk.0.attn_q_norm.weight");
}

// Sigmoid gating is V3's, softmax V2's, as without the key. Files of older converters have no groups: those of the
// published models are told by the number of experts. No file has mscale, which is mscale_all_dim in every published
// config; the key has a tenth of that.
void WriteGgufDeepseek2(GgufConfigWriter* config) {
  constexpr int64_t kExpertsOfV2 = 160;
  constexpr int64_t kExpertsOfV3 = 256;
  GgufFields& fields = config->fields();
  const std::string gating = config->Key("expert_gating_func");
  const int64_t function = fields.Int(gating, 0, 255).value_or(0);
  const bool sigmoid = function == kSigmoidGating;
  if (function > kSigmoidGating) {
    fields.Fail(gating, absl::StrCat("is ", function, "; must be 1 (softmax) or 2 (sigmoid)"));
  }
  RefuseVariantsOfDeepseek2(config, sigmoid);
  const bool grouped = !fields.Has(config->Key("expert_group_count")) &&
                       config->Required("expert_count", 1, kMaxExperts) == (sigmoid ? kExpertsOfV3 : kExpertsOfV2);
  if (grouped) {
    WriteRouting(config, 8, sigmoid ? 4 : 3);
  } else {
    WriteRouting(config, 1, 1);
  }
  if (sigmoid) {
    (*config)["model_type"] = "deepseek_v3";
  } else {
    (*config)["topk_method"] = (*config)["n_group"] == 1 ? "greedy" : "group_limited_greedy";
  }
  GgufConfigWriter::Json& scaling = (*config)["rope_scaling"];
  const std::optional<double> tenth = fields.Number(config->Key("rope.scaling.yarn_log_multiplier"));
  if (scaling.is_object() && tenth.has_value()) scaling["mscale"] = scaling["mscale_all_dim"] = *tenth * 10.0;
}

void WriteGgufCohere(GgufConfigWriter* config) {
  RefuseTensor(config, "blk.0.attn_q_norm.weight", "a norm for each head of Q and K");
  (*config)["logit_scale"] = 1.0;
  config->Copy("logit_scale", "logit_scale");
}

void WriteGgufCohere2(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  WriteGgufCohere(config);
  RequireWindow(config);
  config->WriteWindows("sliding_window", kPeriod);
}

// Whether the terms are parallel shows in the tensors: the key is true in files of models where they are not.
void WriteGgufStablelm(GgufConfigWriter* config) {
  RefuseTensor(config, "blk.0.attn_q_norm.weight", "a norm for each head of Q and K");
  (*config)["use_parallel_residual"] = !config->HasTensor("blk.0.ffn_norm.weight");
}

void WriteGgufExaone4(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  config->WriteWindows("sliding_window", kPeriod);
}

// Q, K and V stand one behind the other in every file, as in the new decoder architecture with any number of heads.
void WriteGgufFalcon(GgufConfigWriter* config) {
  if (config->HasTensor("blk.0.ffn_norm.weight")) {
    config->fields().Fail("blk.0.ffn_norm.weight",
                          "is there: parallel_attn false with alibi true, as of Falcon RW, is not supported in a GGUF "
                          "file; its Hugging Face directory is served");
  }
  (*config)["new_decoder_architecture"] = true;
  (*config)["num_kv_heads"] = 1;
  config->Copy("attention.head_count_kv", "num_kv_heads");
  (*config)["num_ln_in_parallel_attn"] = config->HasTensor("blk.0.attn_norm_2.weight") ? 2 : 1;
}

void WriteGgufBert(GgufConfigWriter* config) {
  if (const int64_t types = config->RowsOf("token_types.weight"); types > 0) (*config)["type_vocab_size"] = types;
  if (config->fields().Bool(config->Key("attention.causal")).value_or(false)) {
    config->fields().Fail(config->Key("attention.causal"), "is true, which is not supported");
  }
}

// The norm's epsilon has one of two keys.
void WriteGgufModernBert(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 3;
  config->Copy("attention.layer_norm_rms_epsilon", "norm_eps");
  config->Copy("attention.layer_norm_epsilon", "norm_eps");
  RequireWindow(config);
  config->WriteWindows("local_attention", kPeriod, /*full_first=*/true);
  config->CopyOr("rope.freq_base_swa", "local_rope_theta", kLocalTheta);
  const std::string activation = config->fields().Text(config->Key("hidden_activation"), kMaxFamilyWordBytes);
  if (!activation.empty()) (*config)["hidden_activation"] = activation;
}

}  // namespace dunlin::engine
