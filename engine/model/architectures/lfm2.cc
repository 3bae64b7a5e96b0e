// SPDX-License-Identifier: Apache-2.0
// LFM2 and LFM2 MoE: gated short convolutions, and attention with a norm over each head of Q and K in some layers. The
// width of a dense MLP follows from a configured one; experts are chosen by sigmoids with a correction, in all but the
// first layers. Source: transformers 5.24, models/lfm2, models/lfm2_moe.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

// layer_types, or else full_attn_idxs says which layers attend; without both all do.
void ParseConvLayers(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  const std::vector<int64_t> attending = fields.IntListOr("full_attn_idxs", 0, kMaxLayers - 1, kMaxLayers);
  if (!fields.status().ok()) return;
  if (!types.empty() && types.size() != static_cast<size_t>(config->num_layers)) {
    return fields.Fail(
        absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", config->num_layers));
  }
  const bool listed = fields.Has("full_attn_idxs");
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool attends = !listed || std::find(attending.begin(), attending.end(), layer) != attending.end();
    const std::string type = types.empty() ? attends ? "full_attention" : "conv" : types[static_cast<size_t>(layer)];
    if (type != "full_attention" && type != "conv") {
      return fields.Fail(
          absl::StrCat("layer_types[", layer, "] is '", type.substr(0, 32), "'; known: full_attention, conv"));
    }
    config->mixers.push_back(type == "conv" ? MixerKind::kShortConv : MixerKind::kAttention);
  }
  if (config->num_kv_layers() == 0)
    fields.Fail("no layer has full attention, of which a model needs one (layer_types, full_attn_idxs)");
}

void ParseLfm2Family(JsonFields& fields, int64_t default_ffn, ModelConfig* config) {
  ParseLlamaFamily(
      fields,
      {.max_context = 128000, .ffn_dim = default_ffn, .tied_embeddings = true, .rotary = {.default_theta = 1e6}},
      config);
  config->norm.epsilon = static_cast<float>(fields.NumberOr("norm_eps", 1e-12, 1.0, 1e-5));
  config->attention.qk_norm = true;
  config->head.tied = fields.BoolOr("tie_embedding", config->head.tied);
  if (!fields.status().ok()) return;
  config->short_conv = {.channels = config->hidden_dim,
                        .taps = static_cast<int32_t>(fields.IntOr("conv_L_cache", 2, kernels::kConvTapsMax, 3)),
                        .bias = fields.BoolOr("conv_bias", false)};
  ParseConvLayers(fields, config);
}

// Two thirds of the configured width (block_ff_dim before intermediate_size) by a factor, as a whole multiple.
void ParseLfm2(JsonFields& fields, ModelConfig* config) {
  ParseLfm2Family(fields, 12288, config);
  int64_t width = fields.IntOr("block_ff_dim", 1, kMaxFfnDim, config->mlp.ffn_dim);
  const bool scaled = fields.Has("block_ffn_dim_multiplier") || !fields.Mentions("block_ffn_dim_multiplier");
  const double factor = fields.NumberOr("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0);
  const int64_t multiple = fields.IntOr("block_multiple_of", 1, kMaxFfnDim, 256);
  if (fields.BoolOr("block_auto_adjust_ff_dim", true)) {
    width = 2 * width / 3;
    if (scaled)
      width = (static_cast<int64_t>(factor * static_cast<double>(width)) + multiple - 1) / multiple * multiple;
  }
  if (fields.status().ok() && (width < 1 || width > kMaxFfnDim)) {
    fields.Fail(
        absl::StrCat("block_auto_adjust_ff_dim makes the MLP ", width, " wide; limit is [1, ", kMaxFfnDim, "]"));
  }
  config->mlp.ffn_dim = static_cast<int32_t>(width);
}

void ParseLfm2Moe(JsonFields& fields, ModelConfig* config) {
  ParseLfm2Family(fields, 7168, config);
  ParseExperts(fields, {.num_experts = 32, .num_chosen = 4, .width = "moe_intermediate_size", .default_width = 1792},
               config);
  ParseGroupedRouting(fields, {}, config);
  config->experts.routing.sum_offset = 1e-6F;
  config->experts.router_correction = fields.BoolOr("use_expert_bias", true);
  const int64_t num_dense = fields.IntOr("num_dense_layers", 0, kMaxLayers, 2);
  for (int32_t layer = 0; layer < config->num_layers; ++layer)
    config->experts.dense_layers.push_back(layer < num_dense);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kLfm2Weights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.operator_norm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_layernorm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_layernorm"},
    {kAttentionOut, kAll, "layers.#.self_attn.out_proj"},
    {kShortConvIn, kAll, "layers.#.conv.in_proj"},
    {kShortConvTaps, kAll, "layers.#.conv.conv"},
    {.slot = kShortConvBias, .part = kAll, .name = "layers.#.conv.conv", .weight = ".bias"},
    {kShortConvOut, kAll, "layers.#.conv.out_proj"},
    {kMlpNorm, kAll, "layers.#.ffn_norm"},
    {kMlpUp, kGate, "layers.#.feed_forward.w1"},
    {kMlpUp, kUp, "layers.#.feed_forward.w3"},
    {kMlpDown, kAll, "layers.#.feed_forward.w2"},
    {kRouter, kExperts, "layers.#.feed_forward.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.feed_forward.expert_bias", .weight = ""},
    {kExpertUp, kGate, "layers.#.feed_forward.experts.@.w1"},
    {kExpertUp, kUp, "layers.#.feed_forward.experts.@.w3"},
    {kExpertDown, kAll, "layers.#.feed_forward.experts.@.w2"},
    {kFinalNorm, kAll, "embedding_norm"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kLfm2Types[] = {"lfm2"};
constexpr const char* kLfm2MoeTypes[] = {"lfm2_moe"};
constexpr const char* kLfm2Outer[] = {"lfm2_vl"};

// The width of the MLP is that of the tensors.
void WriteGgufLfm2(GgufConfigWriter* config) {
  (*config)["block_auto_adjust_ff_dim"] = false;
  (*config)["conv_L_cache"] = config->Required("shortconv.l_cache", 2, kernels::kConvTapsMax);
  (*config)["layer_types"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool conv = config->HasTensor(absl::StrCat("blk.", layer, ".shortconv.conv.weight"));
    (*config)["layer_types"].push_back(conv ? "conv" : "full_attention");
  }
}

void WriteGgufLfm2Moe(GgufConfigWriter* config) {
  WriteGgufLfm2(config);
  RequireGgufSigmoidGating(config);
  const int64_t num_dense = config->Required("leading_dense_block_count", 0, kMaxLayers);
  (*config)["num_dense_layers"] = num_dense;
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  (*config)["use_expert_bias"] = config->HasTensor(absl::StrCat("blk.", num_dense, ".exp_probs_b.bias"));
  config->CopyOr("expert_weights_scale", "routed_scaling_factor", 1.0);
  config->CopyFlag("expert_weights_norm", "norm_topk_prob");
}

constexpr auto kLfm2Fields = GgufFieldNames(kGgufRmsKey, "norm_eps", "rope_theta");
constexpr GgufForm kLfm2Gguf[] = {{.name = "lfm2",
                                   .fields = kLfm2Fields,
                                   .weights = gguf_names::kGatedShortConvs,
                                   .write_fields = &WriteGgufLfm2,
                                   .mixed_layers = true}};
constexpr GgufForm kLfm2MoeGguf[] = {{.name = "lfm2moe",
                                      .fields = kLfm2Fields,
                                      .weights = gguf_names::kGatedShortConvs,
                                      .write_fields = &WriteGgufLfm2Moe,
                                      .experts = true,
                                      .mixed_layers = true}};

}  // namespace

extern const Architecture kLfm2 = {.name = "lfm2",
                                   .model_types = kLfm2Types,
                                   .parse_config = &ParseLfm2,
                                   .names = {kLlamaPrefixes, kLfm2Weights, kLlamaBuffers, kTextPartAliases},
                                   .gguf = kLfm2Gguf,
                                   .multimodal_types = kLfm2Outer};
extern const Architecture kLfm2Moe = {.name = "lfm2_moe",
                                      .model_types = kLfm2MoeTypes,
                                      .parse_config = &ParseLfm2Moe,
                                      .names = {kLlamaPrefixes, kLfm2Weights, kLlamaBuffers},
                                      .gguf = kLfm2MoeGguf};

}  // namespace dunlin::engine
