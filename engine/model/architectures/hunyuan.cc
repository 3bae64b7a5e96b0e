// SPDX-License-Identifier: Apache-2.0
// Hunyuan, version 1: norms of heads of Q and K after the rotation, whose base may be stretched by alpha; dense, or
// with experts next to an MLP that every token takes. Source: transformers 5.24, models/hunyuan_v1_dense,
// models/hunyuan_v1_moe.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kHunyuanDefaults = {.max_context = 2048, .norm_epsilon = 1e-5};

// rope_type dynamic with an alpha: a base of its own for every length. Of a file it is in the base.
void StretchBase(JsonFields& fields, ModelConfig* config) {
  const nlohmann::json* rope = fields.Object("rope_parameters");
  if (rope == nullptr) rope = fields.Object("rope_scaling");
  if (rope == nullptr || !fields.status().ok()) return;
  JsonFields scaling(*rope, absl::StrCat(fields.where(), ": rope_parameters"));
  const double alpha = scaling.NumberOr("alpha", 1e-3, 1e9, 0.0);
  fields.Adopt(scaling.status());
  RotaryScaling stretched = ParseRotaryScaling(fields, kHunyuanDefaults.rotary, config->max_context);
  if (!fields.status().ok() || alpha == 0.0 || stretched.kind != RotaryScalingKind::kNone) return;
  const int32_t dim = config->rotary.dim;
  if (dim <= 2) return fields.Fail("rope_parameters.alpha is set, for heads of 2");
  stretched.theta *= std::pow(alpha, dim / (dim - 2.0));
  config->rotary.inv_freq = InverseFrequencies(stretched, dim);
}

void ParseHunyuan(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kHunyuanDefaults, config);
  AttentionSpec& attention = config->attention;
  attention.qkv_bias = attention.out_bias = fields.BoolOr("attention_bias", false);
  attention.qk_norm = attention.norms_after_rotation = true;
  StretchBase(fields, config);
}

// A number of all layers, or a list of it, one for each layer, as published configs have it.
int64_t OfEveryLayer(JsonFields& fields, const char* name, int64_t max) {
  const std::vector<int64_t> values = fields.IntListOr(name, 1, max, kMaxLayers);
  if (values.empty()) return 1;
  if (std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != values.front(); })) {
    fields.Fail(absl::StrCat(name, " differs by layer, which is not supported"));
  }
  return values.front();
}

// Experts, and the MLP that every token takes, are as wide as intermediate_size says.
void ParseHunyuanMoe(JsonFields& fields, ModelConfig* config) {
  ParseHunyuan(fields, config);
  const int64_t num_experts = OfEveryLayer(fields, "num_experts", kMaxExperts);
  const int64_t num_chosen = OfEveryLayer(fields, "moe_topk", num_experts);
  CheckExpertCount(fields, "num_experts", num_experts, *config);
  ExpertSpec& experts = config->experts;
  experts.routing.num_experts = static_cast<int32_t>(num_experts);
  experts.routing.num_chosen = static_cast<int32_t>(num_chosen);
  experts.routing.normalized = true;
  experts.ffn_dim = experts.shared_ffn_dim = config->mlp.ffn_dim;
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kHunyuanNorms[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kQueryNorm, kAll, "layers.#.self_attn.query_layernorm"},
    {kKeyNorm, kAll, "layers.#.self_attn.key_layernorm"},
};
constexpr WeightName kHunyuanRouter[] = {{kRouter, kExperts, "layers.#.mlp.gate.wg"}};
constexpr auto kHunyuanDenseWeights = WithNorms(kHunyuanNorms);
constexpr auto kHunyuanMoeWeights = WithNorms(kHunyuanNorms, kHunyuanRouter, kHunyuanExperts);
constexpr const char* kHunyuanDenseTypes[] = {"hunyuan_v1_dense"};
constexpr const char* kHunyuanMoeTypes[] = {"hunyuan_v1_moe"};

void WriteGgufHunyuanMoe(GgufConfigWriter* config) {
  (*config)["num_experts"] = (*config)["num_local_experts"];
  (*config)["moe_topk"] = (*config)["num_experts_per_tok"];
  (*config)["intermediate_size"] = config->ExpertWidth();
}

constexpr GgufForm kHunyuanDenseGguf[] = {{.name = "hunyuan-dense"}};
constexpr GgufForm kHunyuanMoeGguf[] = {{.name = "hunyuan-moe", .write_fields = &WriteGgufHunyuanMoe, .experts = true}};

}  // namespace

extern const Architecture kHunyuanDense = {.name = "hunyuan_v1_dense",
                                           .model_types = kHunyuanDenseTypes,
                                           .parse_config = &ParseHunyuan,
                                           .names = {kLlamaPrefixes, kHunyuanDenseWeights, kLlamaBuffers},
                                           .gguf = kHunyuanDenseGguf};
extern const Architecture kHunyuanMoe = {.name = "hunyuan_v1_moe",
                                         .model_types = kHunyuanMoeTypes,
                                         .parse_config = &ParseHunyuanMoe,
                                         .names = {kLlamaPrefixes, kHunyuanMoeWeights, kLlamaBuffers},
                                         .gguf = kHunyuanMoeGguf};

}  // namespace dunlin::engine
