// SPDX-License-Identifier: Apache-2.0
// DeepSeek V4: attention over a window of tokens and over entries of groups of tokens, of which an indexer chooses in
// some layers; several residual streams; experts by the root of softplus scores or, in the first layers, by the token.
// Layers that predict further tokens are skipped. Source: transformers 5.23, models/deepseek_v4; DeepSeek-V4 report.
#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/spec/model_limits.h"
#include "kernels/api/compressed_attention.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxEntryIndexDim = 512;  // what devices take
constexpr int64_t kMaxRate = 1 << 16;       // tokens of an entry
constexpr const char* kWindowAlone = "sliding_attention";
constexpr const char* kChosenEntries = "compressed_sparse_attention";
constexpr const char* kAllEntries = "heavily_compressed_attention";

// The share of a head that rotates, where no list of rotations says it.
double V4RotatedShare(JsonFields& fields, int64_t head_dim) {
  if (!fields.Has("qk_rope_head_dim")) return 0.125;
  const int64_t rotated = fields.IntOr("qk_rope_head_dim", 2, head_dim, 64);
  return static_cast<double>(rotated) / static_cast<double>(head_dim);
}

struct V4Rotations {
  RotaryScaling plain;       // of layers without entries
  RotaryScaling compressed;  // of those with entries
};

// rope_parameters has both, or else the scaling of layers with entries, as rope_scaling has.
V4Rotations ParseV4Rotations(JsonFields& fields, int64_t head_dim, int64_t max_context) {
  const double share = V4RotatedShare(fields, head_dim);
  const nlohmann::json* parameters = fields.Object("rope_parameters");
  const bool nested = parameters != nullptr && parameters->contains("main") && parameters->contains("compress");
  const RotaryFields plain = {.default_partial_factor = share, .partial = true, .nested = "main"};
  const RotaryFields compressed = {.theta = "compress_rope_theta",
                                   .default_partial_factor = share,
                                   .partial = true,
                                   .default_theta = 160000.0,
                                   .nested = "compress"};
  V4Rotations rotations;
  rotations.compressed = ParseRotaryScaling(fields, compressed, max_context);
  if (nested) {
    rotations.plain = ParseRotaryScaling(fields, plain, max_context);
  } else {
    rotations.plain.theta = fields.NumberOr("rope_theta", 2.0, 1e12, 10000.0);
    rotations.plain.partial_factor = rotations.compressed.partial_factor;
    rotations.compressed.theta = fields.NumberOr("compress_rope_theta", 2.0, 1e12, 160000.0);
    if (!rotations.compressed.attention_factor) rotations.compressed.attention_factor = 1.0;
  }
  const auto known = [](RotaryScalingKind kind) {
    return kind == RotaryScalingKind::kNone || kind == RotaryScalingKind::kYarn;
  };
  if (!known(rotations.plain.kind) || !known(rotations.compressed.kind)) {
    fields.Fail("rope_type is neither default nor yarn, which is not supported here");
  } else if (rotations.plain.partial_factor != rotations.compressed.partial_factor) {
    fields.Fail("rope_parameters rotate other parts of heads in layers with entries than in the others");
  }
  return rotations;
}

void SetV4Rotations(JsonFields& fields, ModelConfig* config) {
  const int64_t head_dim = config->attention.head_dim;
  const V4Rotations rotations = ParseV4Rotations(fields, head_dim, config->max_context);
  if (!fields.status().ok()) return;
  const auto rotated = static_cast<int32_t>(static_cast<double>(head_dim) * rotations.plain.partial_factor);
  if (rotated < 2 || rotated % 2 != 0) {
    return fields.Fail(absl::StrCat("partial_rotary_factor rotates ", rotated, " of ", head_dim,
                                    " dimensions; it must be an even number of them"));
  }
  RotarySpec& rotary = config->rotary;
  rotary.dim = rotated;
  AddFrequencies(rotations.plain, rotated, &rotary);
  AddFrequencies(rotations.compressed, rotated, &rotary);
  config->max_context = static_cast<int32_t>(std::min<int64_t>(config->max_context, rotations.compressed.max_context));
  LatentAttentionSpec& query = config->attention.latent;
  query.rope_dim = config->attention.compressed.rope_dim = rotated;
  query.plain_dim = config->attention.head_dim - rotated;
}

int64_t V4RateOf(JsonFields& fields, const char* kind, const char* old_name, int64_t fallback) {
  const nlohmann::json* rates = fields.Object("compress_rates");
  int64_t rate = fields.IntOr(old_name, 2, kMaxRate, fallback);
  if (rates != nullptr) {
    JsonFields of_kinds(*rates, absl::StrCat(fields.where(), ": compress_rates"));
    rate = of_kinds.IntOr(kind, 2, kMaxRate, rate);
    fields.Adopt(of_kinds.status());
  }
  if (fields.status().ok() && !std::has_single_bit(static_cast<uint64_t>(rate))) {
    fields.Fail(absl::StrCat("compress_rates.", kind, " is ", rate, "; must be a power of two"));
  }
  return rate;
}

// layer_types, or else compress_ratios (tokens of an entry, 0 for none), or else transformers' default. The lists may
// have entries of layers that predict behind those of the others.
std::vector<std::string> V4LayerTypes(JsonFields& fields, const ModelConfig& config, int64_t choosing, int64_t dense) {
  std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  const std::vector<int64_t> ratios = fields.IntListOr("compress_ratios", 0, kMaxRate, kMaxLayers);
  if (types.empty()) {
    for (const int64_t ratio : ratios) {
      if (ratio != 0 && ratio != choosing && ratio != dense) {
        fields.Fail(absl::StrCat("compress_ratios has ", ratio, "; known: 0, ", choosing, ", ", dense));
      }
      types.emplace_back(ratio == 0 ? kWindowAlone : ratio == choosing ? kChosenEntries : kAllEntries);
    }
  }
  const auto num_layers = static_cast<size_t>(config.num_layers);
  const bool by_default = types.empty();
  for (size_t layer = 0; by_default && layer < num_layers; ++layer) {
    types.emplace_back(layer < 2 || layer % 2 == 0 ? kAllEntries : kChosenEntries);
  }
  if (types.size() < num_layers) {
    fields.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
  }
  types.resize(num_layers);
  return types;
}

void SetV4Layers(JsonFields& fields, ModelConfig* config) {
  const int64_t choosing = V4RateOf(fields, kChosenEntries, "compress_rate_csa", 4);
  const int64_t dense = V4RateOf(fields, kAllEntries, "compress_rate_hca", 128);
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, 128);
  const std::vector<std::string> types = V4LayerTypes(fields, *config, choosing, dense);
  AttentionSpec& attention = config->attention;
  for (size_t layer = 0; fields.status().ok() && layer < types.size(); ++layer) {
    const std::string& type = types[layer];
    if (type != kWindowAlone && type != kChosenEntries && type != kAllEntries) {
      return fields.Fail(absl::StrCat("layer_types[", layer, "] is '", type.substr(0, 32), "'; known: ", kWindowAlone,
                                      ", ", kChosenEntries, ", ", kAllEntries));
    }
    const int64_t rate = type == kWindowAlone ? 0 : type == kChosenEntries ? choosing : dense;
    attention.layer_windows.push_back(static_cast<int32_t>(window));
    attention.compressed.rates.push_back(static_cast<int32_t>(rate));
    attention.compressed.chooses.push_back(type == kChosenEntries);
    config->rotary.layer_index.push_back(rate == 0 ? 0 : 1);
  }
}

void SetV4Attention(JsonFields& fields, ModelConfig* config) {
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t head_dim = fields.IntOr("head_dim", 2, kMaxHeadDim, 512);
  const int64_t query_rank = fields.IntOr("q_lora_rank", 1, kMaxHiddenDim, 1024);
  const int64_t groups = fields.IntOr("o_groups", 1, kMaxHeads, 8);
  const int64_t out_rank = fields.IntOr("o_lora_rank", 1, kMaxHiddenDim / kMaxHeads * 16, 1024);
  const int64_t index_heads = fields.IntOr("index_n_heads", 1, kMaxHeads, 64);
  const int64_t index_dim = fields.IntOr("index_head_dim", 2, kMaxEntryIndexDim, 128);
  const int64_t top_k = fields.IntOr("index_topk", 1, kMaxContextTokens, 512);
  fields.IntOr("num_key_value_heads", 1, 1, 1);
  SetHeads(fields, num_heads, 1, head_dim, config);
  if (!fields.status().ok()) return;
  if (head_dim % 2 != 0) return fields.Fail(absl::StrCat("head_dim is ", head_dim, "; must be even"));
  if (num_heads % groups != 0) {
    return fields.Fail(absl::StrCat("o_groups is ", groups, ", which does not divide ", num_heads, " heads"));
  }
  AttentionSpec& attention = config->attention;
  attention.sinks = true;
  attention.latent.query_rank = static_cast<int32_t>(query_rank);
  attention.compressed.out_groups = static_cast<int32_t>(groups);
  attention.compressed.out_rank = static_cast<int32_t>(out_rank);
  attention.indexer.num_heads = static_cast<int32_t>(index_heads);
  attention.indexer.dim = static_cast<int32_t>(index_dim);
  attention.indexer.top_k = static_cast<int32_t>(top_k);
  SetV4Rotations(fields, config);
  SetV4Layers(fields, config);
  if (fields.status().ok() && (index_dim % 2 != 0 || index_dim < config->rotary.dim)) {
    fields.Fail(absl::StrCat("index_head_dim is ", index_dim, "; must be even and at least the ", config->rotary.dim,
                             " dimensions that rotate"));
  }
}

// mlp_layer_types, or else the first num_hash_layers.
void SetLayersByToken(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("mlp_layer_types", kMaxLayers);
  const int64_t first = fields.IntOr("num_hash_layers", 0, kMaxLayers, 3);
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!types.empty() && types.size() != num_layers) {
    return fields.Fail(
        absl::StrCat("mlp_layer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const bool by_token = types.empty() ? static_cast<int64_t>(layer) < first : types[layer] == "hash_moe";
    if (!types.empty() && !by_token && types[layer] != "moe") {
      return fields.Fail(
          absl::StrCat("mlp_layer_types[", layer, "] is '", types[layer].substr(0, 32), "'; known: hash_moe, moe"));
    }
    config->experts.by_token.push_back(by_token);
  }
}

void SetV4Experts(JsonFields& fields, ModelConfig* config) {
  ParseExperts(fields, {.num_experts = 256, .num_chosen = 6, .width = "moe_intermediate_size", .default_width = 2048},
               config);
  if (fields.IntOr("n_shared_experts", 0, kMaxExperts, 1) != 1) fields.Fail("n_shared_experts must be 1");
  if (!fields.BoolOr("norm_topk_prob", true)) fields.Fail("norm_topk_prob is false, which is not supported");
  config->experts.shared_ffn_dim = config->experts.ffn_dim;
  kernels::ExpertRouting& routing = config->experts.routing;
  const std::string scoring = fields.TextOr("scoring_func", "sqrtsoftplus");
  if (scoring != "sqrtsoftplus" && scoring != "sigmoid") {
    fields.Fail(absl::StrCat("scoring_func is '", scoring.substr(0, 32), "'; known: sqrtsoftplus, sigmoid"));
  }
  routing.scoring = scoring == "sigmoid" ? kernels::ExpertScoring::kSigmoid : kernels::ExpertScoring::kRootSoftplus;
  routing.normalized = true;
  routing.scale = static_cast<float>(fields.NumberOr("routed_scaling_factor", 1e-6, 1e6, 1.5));
  config->experts.router_correction = true;
  SetLayersByToken(fields, config);
  const auto limit = static_cast<float>(fields.NumberOr("swiglu_limit", 1e-3, 1e6, 10.0));
  config->experts.limits.assign(static_cast<size_t>(config->num_layers), limit);
  config->mlp.limits = config->experts.limits;
  config->mlp.cuts_before = true;
}

void SetV4Streams(JsonFields& fields, ModelConfig* config) {
  config->streams = {.count = static_cast<int32_t>(fields.IntOr("hc_mult", 1, kernels::kStreamsMax, 4)),
                     .iterations = static_cast<int32_t>(fields.IntOr("hc_sinkhorn_iters", 1, 1000, 20)),
                     .epsilon = static_cast<float>(fields.NumberOr("hc_eps", 0.0, 1.0, 1e-6))};
}

void ParseDeepseekV4(JsonFields& fields, ModelConfig* config) {
  SetSizes(fields, 1048576, config, 2048);
  RefuseUnsupported(fields, {"attention_bias", "mlp_bias"});
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "silu");
  config->mlp.gated = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  if (!fields.status().ok()) return;
  SetV4Attention(fields, config);
  SetV4Experts(fields, config);
  SetV4Streams(fields, config);
  config->mlp.ffn_dim = config->experts.ffn_dim;  // every layer has experts
}

using enum WeightSlot;
using enum FusedPart;

// Values and gates of rows are halves of one matrix, as an MLP's gate and up.
constexpr WeightName kV4Weights[] = {
    {kEmbedding, kAll, "embed"},
    {.slot = kHeadStreams, .part = kAll, .name = "hc_head_fn", .weight = ""},
    {.slot = kHeadStreamBase, .part = kAll, .name = "hc_head_base", .weight = ""},
    {.slot = kHeadStreamScale, .part = kAll, .name = "hc_head_scale", .weight = ""},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "head", false},
    {.slot = kAttentionStreams, .part = kAll, .name = "layers.#.hc_attn_fn", .weight = ""},
    {.slot = kAttentionStreamBase, .part = kAll, .name = "layers.#.hc_attn_base", .weight = ""},
    {.slot = kAttentionStreamScale, .part = kAll, .name = "layers.#.hc_attn_scale", .weight = ""},
    {kAttentionNorm, kAll, "layers.#.attn_norm"},
    {kQueryDown, kAll, "layers.#.attn.wq_a"},
    {kQueryDownNorm, kAll, "layers.#.attn.q_norm"},
    {kLatentQuery, kAll, "layers.#.attn.wq_b"},
    {kKvDown, kAll, "layers.#.attn.wkv"},
    {kKvDownNorm, kAll, "layers.#.attn.kv_norm"},
    {.slot = kAttentionSinks, .part = kAll, .name = "layers.#.attn.attn_sink", .weight = ""},
    {kEntryRows, kGate, "layers.#.attn.compressor.wkv"},
    {kEntryRows, kUp, "layers.#.attn.compressor.wgate"},
    {.slot = kEntryBias, .part = kAll, .name = "layers.#.attn.compressor.ape", .weight = ""},
    {kEntryNorm, kAll, "layers.#.attn.compressor.norm"},
    {kIndexEntryRows, kGate, "layers.#.attn.indexer.compressor.wkv"},
    {kIndexEntryRows, kUp, "layers.#.attn.indexer.compressor.wgate"},
    {.slot = kIndexEntryBias, .part = kAll, .name = "layers.#.attn.indexer.compressor.ape", .weight = ""},
    {kIndexEntryNorm, kAll, "layers.#.attn.indexer.compressor.norm"},
    {kIndexQuery, kAll, "layers.#.attn.indexer.wq_b"},
    {kIndexWeights, kAll, "layers.#.attn.indexer.weights_proj"},
    {kOutDown, kAll, "layers.#.attn.wo_a"},
    {kAttentionOut, kAll, "layers.#.attn.wo_b"},
    {.slot = kMlpStreams, .part = kAll, .name = "layers.#.hc_ffn_fn", .weight = ""},
    {.slot = kMlpStreamBase, .part = kAll, .name = "layers.#.hc_ffn_base", .weight = ""},
    {.slot = kMlpStreamScale, .part = kAll, .name = "layers.#.hc_ffn_scale", .weight = ""},
    {kMlpNorm, kAll, "layers.#.ffn_norm"},
    {kRouter, kExperts, "layers.#.ffn.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.ffn.gate.bias", .weight = ""},
    {.slot = kTokenExperts, .part = kAll, .name = "layers.#.ffn.gate.tid2eid", .weight = ""},
    {kExpertUp, kGate, "layers.#.ffn.experts.@.w1"},
    {kExpertUp, kUp, "layers.#.ffn.experts.@.w3"},
    {kExpertDown, kAll, "layers.#.ffn.experts.@.w2"},
    {kSharedUp, kGate, "layers.#.ffn.shared_experts.w1"},
    {kSharedUp, kUp, "layers.#.ffn.shared_experts.w3"},
    {kSharedDown, kAll, "layers.#.ffn.shared_experts.w2"},
};
constexpr const char* kV4Types[] = {"deepseek_v4"};
constexpr const char* kV4Prefixes[] = {"", "model."};
// As transformers saves them.
constexpr NameAlias kV4Aliases[] = {
    {"embed.", "embed_tokens."}, {"hc_head_", "hc_head.hc_"}, {"attn.kv_norm", "attn.norm"}};

}  // namespace

extern const Architecture kDeepseekV4 = {.name = "deepseek_v4",
                                         .model_types = kV4Types,
                                         .parse_config = &ParseDeepseekV4,
                                         .names = {kV4Prefixes, kV4Weights, {}, kV4Aliases}};

}  // namespace dunlin::engine
