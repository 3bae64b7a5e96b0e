// SPDX-License-Identifier: Apache-2.0
// Granite 4's hybrids: Granite's multipliers, Mamba2 layers, attention without positions in some, and an MLP or, beside
// experts, an MLP that every token takes. Source: transformers 5.24, models/granitemoehybrid.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/granite_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/architectures/mamba_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kDefaultExperts = 8;

// The MLP of every token is the layer's or the experts' shared one.
void ParseMlps(JsonFields& fields, ModelConfig* config) {
  const auto shared = static_cast<int32_t>(fields.IntOr("shared_intermediate_size", 1, kMaxFfnDim, 1024));
  if (fields.IntOr("num_local_experts", 0, kMaxExperts, kDefaultExperts) == 0) {
    config->mlp.ffn_dim = shared;
    return;
  }
  ParseExperts(fields, {.num_experts = kDefaultExperts, .num_chosen = 2, .default_width = 11008}, config);
  config->experts.routing.scoring = kernels::ExpertScoring::kSoftmaxOfChosen;
  config->experts.shared_ffn_dim = shared;
}

void ParseGraniteHybrid(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048, .ffn_dim = 11008}, config);
  ParseGraniteMultipliers(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  RefuseOtherThan(fields, "hidden_act", "silu");  // of the convolutions, too
  const std::string positions = fields.TextOr("position_embedding_type", "nope");
  if (positions != "rope") config->rotary = {};
  if (positions != "rope" && positions != "nope") {
    fields.Fail(absl::StrCat("position_embedding_type is '", positions.substr(0, 32), "'; known: nope, rope"));
  }
  ParseMlps(fields, config);
  const MambaFields names;
  ParseMamba(fields, names, MambaHeadDim(fields, names, *config), config);
  ParseStepLimits(fields, &config->mamba);
  const std::string layers = ParseLayerLetters(fields, "M*");
  SetMixers(fields, layers.empty() ? std::string(static_cast<size_t>(config->num_layers), 'M') : layers, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kGraniteHybridNames[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kAll, "layers.#.shared_mlp.input_linear"},
    {kMlpDown, kAll, "layers.#.shared_mlp.output_linear"},
    {kSharedUp, kAll, "layers.#.shared_mlp.input_linear"},
    {kSharedDown, kAll, "layers.#.shared_mlp.output_linear"},
    {kRouter, kExperts, "layers.#.block_sparse_moe.router.layer"},
    {kExpertUp, kAll, "layers.#.block_sparse_moe.input_linear.@"},
    {kExpertDown, kAll, "layers.#.block_sparse_moe.output_linear.@"},
};
constexpr auto kGraniteHybridWeights = WithoutMlp(kGraniteHybridNames, kMambaWeights);
// The MLP of every token is the layer's where the file has no experts.
void WriteGgufGraniteHybrid(GgufConfigWriter* config) {
  WriteGgufMultipliers(config);
  const int64_t head_dim = WriteGgufMamba(config, {});
  const int64_t hidden = config->Required("embedding_length", 1, kMaxHiddenDim);
  const int64_t features = head_dim * config->Required("ssm.time_step_rank", 1, kMaxHeads);
  if (features % hidden != 0) {
    config->fields().Fail(config->Key("ssm.inner_size"),
                          absl::StrCat("is ", features, ", not a multiple of embedding_length ", hidden));
  }
  (*config)["mamba_d_head"] = head_dim;
  (*config)["mamba_expand"] = features / hidden;
  const bool experts = config->HasTensor(kGgufRouter);
  if (!experts) (*config)["num_local_experts"] = 0;
  (*config)["shared_intermediate_size"] = config->RowsOf(experts ? "blk.0.ffn_up_shexp.weight" : "blk.0.ffn_up.weight");
  config->Copy("expert_feed_forward_length", "intermediate_size");
  const bool positions = config->fields().Bool(config->Key("rope.scaling.finetuned")).value_or(true);
  (*config)["position_embedding_type"] = positions ? "rope" : "nope";
}

constexpr GgufForm kGraniteHybridGguf[] = {{.name = "granitehybrid",
                                            .weights = gguf_names::kMambaHybrid,
                                            .write_fields = &WriteGgufGraniteHybrid,
                                            .tensor = kGgufRouter,
                                            .interleaved_rotation = true,
                                            .fixed_biases = true,
                                            .experts = true,
                                            .mixed_layers = true},
                                           {.name = "granitehybrid",
                                            .weights = gguf_names::kMambaHybrid,
                                            .write_fields = &WriteGgufGraniteHybrid,
                                            .interleaved_rotation = true,
                                            .fixed_biases = true,
                                            .mixed_layers = true}};
constexpr const char* kGraniteHybridTypes[] = {"granitemoehybrid"};

}  // namespace

extern const Architecture kGraniteHybrid = {.name = "granitemoehybrid",
                                            .model_types = kGraniteHybridTypes,
                                            .parse_config = &ParseGraniteHybrid,
                                            .names = {kLlamaPrefixes, kGraniteHybridWeights, kLlamaBuffers},
                                            .gguf = kGraniteHybridGguf};

}  // namespace dunlin::engine
