// SPDX-License-Identifier: Apache-2.0
// Kimi Linear: gated delta nets whose states have a decay in each row, latent attention without positions in every few
// layers, and DeepSeek V3's experts in all but the first. Source: transformers 5.24, models/kimi_linear; Kimi Team
// 2025, "Kimi Linear: An Expressive, Efficient Attention Architecture".
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/deepseek_family.h"
#include "engine/model/architectures/delta_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/mamba_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxKimiRows = 1 << 20;  // of a delta net's input projection
constexpr int64_t kKimiInterval = 4;       // between layers that attend, where the config says nothing

// Sizes of heads: of linear_attn_config where it has them.
struct KimiSizeFields {
  const char* heads;
  const char* head_dim;
  const char* taps;
};

void ParseKimiSizes(JsonFields& fields, const KimiSizeFields& names, ModelConfig* config) {
  kernels::DeltaShape& shape = config->delta.shape;
  shape.key_heads = static_cast<int32_t>(fields.IntOr(names.heads, 1, kMaxHeads, std::max(shape.key_heads, 1)));
  shape.key_dim = static_cast<int32_t>(fields.IntOr(names.head_dim, 1, kMaxHeadDim, shape.key_dim));
  config->delta.conv_taps =
      static_cast<int32_t>(fields.IntOr(names.taps, 2, kernels::kConvTapsMax, config->delta.conv_taps));
  shape.value_heads = shape.key_heads;
  shape.value_dim = config->delta.gate_rank = shape.key_dim;
}

// full_attn_layers and kda_layers of linear_attn_config: each layer's number, from 1, in one of them. Where one list is
// missing, it has the layers that the other does not have.
std::string LettersOfLists(JsonFields& fields, const ModelConfig& config) {
  std::string letters(static_cast<size_t>(config.num_layers), ' ');
  const auto fill = [&](const char* name, char letter) {
    for (const int64_t number : fields.IntListOr(name, 1, config.num_layers, kMaxLayers)) {
      char& of_layer = letters[static_cast<size_t>(number - 1)];
      if (of_layer != ' ' && fields.status().ok()) {
        fields.Fail(absl::StrCat(name, " has layer ", number, ", which is in a list already"));
      }
      of_layer = letter;
    }
  };
  fill("full_attn_layers", '*');
  fill("kda_layers", 'M');
  const bool both = fields.Has("full_attn_layers") && fields.Has("kda_layers");
  if (!both) std::replace(letters.begin(), letters.end(), ' ', fields.Has("kda_layers") ? '*' : 'M');
  const size_t missing = letters.find(' ');
  if (missing != std::string::npos && fields.status().ok()) {
    fields.Fail(absl::StrCat("neither full_attn_layers nor kda_layers has layer ", missing + 1));
  }
  return letters;
}

void ParseKimiLayers(JsonFields& fields, ModelConfig* config) {
  config->delta.shape = {.key_heads = 32, .value_heads = 32, .key_dim = 128, .value_dim = 128};
  config->delta.conv_taps = 4;
  ParseKimiSizes(fields, {"linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"}, config);
  std::string letters = ParseLayerLetters(fields, "M*");
  if (const nlohmann::json* object = fields.Object("linear_attn_config")) {
    JsonFields nested(*object, fields.where() + ": linear_attn_config");
    ParseKimiSizes(nested, {"num_heads", "head_dim", "short_conv_kernel_size"}, config);
    const bool lists = nested.Has("full_attn_layers") || nested.Has("kda_layers");
    if (letters.empty() && lists) letters = LettersOfLists(nested, *config);
    fields.Adopt(nested.status());
  }
  if (!fields.status().ok()) return;
  if (3 * int64_t{config->delta.output_features()} > kMaxKimiRows) {
    return fields.Fail(absl::StrCat("the heads of linear attention take ", 3 * int64_t{config->delta.output_features()},
                                    " rows; limit is ", kMaxKimiRows));
  }
  for (auto layer = static_cast<int32_t>(letters.size()); layer < config->num_layers; ++layer) {
    letters += layer > 0 && layer % kKimiInterval == 0 ? '*' : 'M';
  }
  SetDeltaMixers(fields, letters, "layer_types, linear_attn_config", config);
}

void ParseKimiExperts(JsonFields& fields, ModelConfig* config) {
  const char* chosen = EitherName(fields, "num_experts_per_token", "num_experts_per_tok");
  ParseExperts(fields,
               {.num_experts = 256,
                .num_chosen = 8,
                .width = "moe_intermediate_size",
                .default_width = 1024,
                .chosen_field = chosen},
               config);
  ParseSharedExperts(fields, EitherName(fields, "num_shared_experts", "n_shared_experts"), 1, config);
  ParseDenseLayers(fields, 1, config);
  fields.IntOr("moe_layer_freq", 1, 1, 1);
  RefuseOtherThan(fields, "moe_router_activation_func", "sigmoid");
  ParseGroupedRouting(fields,
                      {.scale = 2.446,
                       .groups_field = EitherName(fields, "num_expert_group", "n_group"),
                       .normalized_field = EitherName(fields, "moe_renormalize", "norm_topk_prob"),
                       .chosen_field = chosen},
                      config);
}

void ParseKimiLinear(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields,
                      {.max_context = 1 << 20,
                       .norm_epsilon = 1e-5,
                       .context_field = EitherName(fields, "model_max_length", "max_position_embeddings"),
                       .query_rank = 0},
                      config);
  RefuseOtherThan(fields, "hidden_act", "silu");  // of the convolutions, too
  if (!fields.BoolOr("mla_use_nope", true)) {
    fields.Fail("mla_use_nope is false; attention with positions is not supported");
  }
  config->rotary = {};
  ParseKimiLayers(fields, config);
  ParseKimiExperts(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kKimiDelta[] = {
    {kDeltaIn, kDeltaQuery, "layers.#.self_attn.q_proj"},
    {kDeltaIn, kDeltaKey, "layers.#.self_attn.k_proj"},
    {kDeltaIn, kDeltaValue, "layers.#.self_attn.v_proj"},
    {kDeltaConv, kDeltaQuery, "layers.#.self_attn.q_conv1d"},
    {kDeltaConv, kDeltaKey, "layers.#.self_attn.k_conv1d"},
    {kDeltaConv, kDeltaValue, "layers.#.self_attn.v_conv1d"},
    {kDeltaGates, kBeta, "layers.#.self_attn.b_proj"},
    {kDeltaGates, kDecayRank, "layers.#.self_attn.f_a_proj"},
    {kDeltaGates, kOutputGateRank, "layers.#.self_attn.g_a_proj"},
    {kDeltaDecay, kAll, "layers.#.self_attn.f_b_proj"},
    {kDeltaOutputGate, kAll, "layers.#.self_attn.g_b_proj"},
    {.slot = kDeltaRate, .part = kAll, .name = "layers.#.self_attn.A_log", .weight = ""},
    {.slot = kDeltaTimeBias, .part = kAll, .name = "layers.#.self_attn.dt_bias", .weight = ""},
    {kDeltaNorm, kAll, "layers.#.self_attn.o_norm"},
    {kDeltaOut, kAll, "layers.#.self_attn.o_proj"},
};
constexpr WeightName kKimiExperts[] = {
    {kRouter, kExperts, "layers.#.block_sparse_moe.gate"},
    {.slot = kRouterCorrection,
     .part = kAll,
     .name = "layers.#.block_sparse_moe.gate.e_score_correction_bias",
     .weight = ""},
    {kExpertUp, kGate, "layers.#.block_sparse_moe.experts.@.w1"},
    {kExpertUp, kUp, "layers.#.block_sparse_moe.experts.@.w3"},
    {kExpertDown, kAll, "layers.#.block_sparse_moe.experts.@.w2"},
    {kSharedUp, kGate, "layers.#.block_sparse_moe.shared_experts.gate_proj"},
    {kSharedUp, kUp, "layers.#.block_sparse_moe.shared_experts.up_proj"},
    {kSharedDown, kAll, "layers.#.block_sparse_moe.shared_experts.down_proj"},
};
constexpr auto kKimiWeights = WithLatentAttention(kKimiDelta, kKimiExperts);
constexpr const char* kKimiLinearTypes[] = {"kimi_linear"};

// Which layers attend is told by their tensors, and so is the number of a delta net's heads.
void WriteGgufKimiLinear(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufRouting(config, 1, 1);
  if (!config->fields().Has(config->Key("expert_weights_norm"))) (*config)["norm_topk_prob"] = true;
  const int64_t head_dim = config->Required("kda.head_dim", 1, kMaxHeadDim);
  const int64_t channels = config->RowsOf(GgufTensorOfSome(*config, "ssm_dt.bias").c_str());
  if (channels % head_dim != 0) {
    config->fields().Fail(config->Key("kda.head_dim"),
                          absl::StrCat("is ", head_dim, ", which does not divide the ", channels, " of ssm_dt.bias"));
  }
  (*config)["linear_num_heads"] = std::max<int64_t>(channels / head_dim, 1);
  (*config)["linear_head_dim"] = head_dim;
  (*config)["linear_conv_kernel_dim"] = config->Required("ssm.conv_kernel", 2, kernels::kConvTapsMax);
  (*config)["layer_types"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool linear = config->HasTensor(absl::StrCat("blk.", layer, ".ssm_dt.bias"));
    (*config)["layer_types"].push_back(linear ? "linear_attention" : "full_attention");
  }
}

constexpr GgufForm kKimiLinearGguf[] = {{.name = "kimi-linear",
                                         .weights = gguf_names::kLatentHybrid,
                                         .write_fields = &WriteGgufKimiLinear,
                                         .experts = true,
                                         .latent_attention = true}};

}  // namespace

extern const Architecture kKimiLinear = {.name = "kimi_linear",
                                         .model_types = kKimiLinearTypes,
                                         .parse_config = &ParseKimiLinear,
                                         .names = {kLlamaPrefixes, kKimiWeights, kLlamaBuffers, kDeepseekAliases},
                                         .gguf = kKimiLinearGguf};

}  // namespace dunlin::engine
