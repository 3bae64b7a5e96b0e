// SPDX-License-Identifier: Apache-2.0
// MiniMax M3, its text model: MiniMax M2 with norms of 1 + w, of heads of Q and K too, a clamped gate, dense first
// layers, a shared expert, and an indexer by which each KV head of most layers attends to blocks of keys. Source:
// transformers 5.24, models/minimax_m3_vl; the names of published files are those of its conversion_mapping.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxM3IndexDim = 512;  // what devices take
constexpr int64_t kMaxM3IndexHeads = 64;
constexpr int64_t kMaxM3Block = 4096;  // tokens
constexpr int64_t kM3BlockGrid = 16;   // tokens, which divide a block
constexpr int64_t kMaxM3Blocks = 4096;

// Published fields of the indexer are in an object and have other names than transformers' own.
struct M3IndexFields {
  const char* heads;
  const char* dim;
  const char* block;
  const char* chosen;
  const char* local;
};
constexpr M3IndexFields kM3Index = {"index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks",
                                    "index_local_blocks"};
constexpr M3IndexFields kM3Published = {"sparse_num_index_heads", "sparse_index_dim", "sparse_block_size",
                                        "sparse_topk_blocks", "sparse_local_block"};

// Of the heads of keys and values each has an index query.
void ReadM3Index(JsonFields& fields, const M3IndexFields& names, ModelConfig* config) {
  IndexerSpec& indexer = config->attention.indexer;
  const int64_t kv_heads = config->attention.num_kv_heads;
  const int64_t block = fields.IntOr(names.block, kM3BlockGrid, kMaxM3Block, 128);
  const int64_t chosen = fields.IntOr(names.chosen, 1, kMaxM3Blocks, 16);
  const int64_t dim = fields.IntOr(names.dim, 2, kMaxM3IndexDim, 128);
  const int64_t heads = fields.IntOr(names.heads, 1, kMaxM3IndexHeads, 4);
  const int64_t local = fields.IntOr(names.local, 1, chosen, 1);
  if (!fields.status().ok()) return;
  if (heads != kv_heads) {
    return fields.Fail(absl::StrCat(names.heads, " is ", heads, "; must be num_key_value_heads, ", kv_heads));
  }
  if (block % kM3BlockGrid != 0 || heads > block / 2) {
    return fields.Fail(absl::StrCat(names.block, " is ", block, "; must be a multiple of ", kM3BlockGrid,
                                    " and at least twice ", names.heads));
  }
  if (dim % 2 != 0 || dim < config->rotary.dim) {
    return fields.Fail(absl::StrCat(names.dim, " is ", dim, "; must be even and at least the ", config->rotary.dim,
                                    " dimensions of a head that rotate"));
  }
  indexer.num_heads = static_cast<int32_t>(heads);
  indexer.dim = static_cast<int32_t>(dim);
  indexer.top_k = static_cast<int32_t>(chosen * block);
  indexer.blocks = {.tokens = static_cast<int32_t>(block), .local = static_cast<int32_t>(local)};
}

// 0 or 1 of each layer.
std::vector<bool> M3Flags(JsonFields& fields, const char* name, int32_t num_layers) {
  const std::vector<int64_t> values = fields.IntListOr(name, 0, 1, kMaxLayers);
  if (fields.status().ok() && !values.empty() && values.size() != static_cast<size_t>(num_layers)) {
    fields.Fail(absl::StrCat(name, " has ", values.size(), " entries; num_hidden_layers is ", num_layers));
  }
  return {values.begin(), values.end()};
}

// Of layer_types; empty where the config has none.
std::vector<bool> M3SparseTypes(JsonFields& fields, const ModelConfig& config) {
  std::vector<bool> sparse;
  for (const std::string& type : fields.TextListOr("layer_types", kMaxLayers)) {
    if (type != "full_attention" && type != "minimax_m3_sparse") {
      fields.Fail(absl::StrCat("layer_types[", sparse.size(), "] is '", type.substr(0, 32),
                               "'; known: full_attention, minimax_m3_sparse"));
    }
    sparse.push_back(type == "minimax_m3_sparse");
  }
  if (!sparse.empty() && sparse.size() != static_cast<size_t>(config.num_layers)) {
    fields.Fail(absl::StrCat("layer_types has ", sparse.size(), " entries; num_hidden_layers is ", config.num_layers));
  }
  return sparse;
}

// Layers that choose blocks: of layer_types, or of sparse_attention_config. Without either none does.
void SetM3Index(JsonFields& fields, ModelConfig* config) {
  std::vector<bool> sparse = M3SparseTypes(fields, *config);
  bool published = false;
  if (const nlohmann::json* object = fields.Object("sparse_attention_config")) {
    JsonFields nested(*object, absl::StrCat(fields.where(), ": sparse_attention_config"));
    RefuseOtherThan(nested, "sparse_score_type", "max");
    nested.IntOr("sparse_init_block", 0, 0, 0);
    published = nested.Has(kM3Published.block);
    if (published) ReadM3Index(nested, kM3Published, config);
    const std::vector<bool> given = M3Flags(nested, "sparse_attention_freq", config->num_layers);
    if (sparse.empty() && nested.BoolOr("use_sparse_attention", true)) sparse = given;
    fields.Adopt(nested.status());
  }
  if (!published && fields.status().ok()) ReadM3Index(fields, kM3Index, config);
  if (!fields.status().ok()) return;
  if (std::find(sparse.begin(), sparse.end(), true) == sparse.end()) {
    config->attention.indexer = {};
    return;
  }
  for (const bool chooses : sparse) config->attention.indexer.dense.push_back(!chooses);
}

void SetM3Experts(JsonFields& fields, ModelConfig* config) {
  ParseExperts(fields, {.num_experts = 128, .num_chosen = 4, .default_width = 3072}, config);
  ParseGroupedRouting(fields, {.scale = 2.0}, config);
  config->mlp.ffn_dim = static_cast<int32_t>(fields.IntOr("dense_intermediate_size", 1, kMaxFfnDim, 12288));
  config->experts.shared_ffn_dim = static_cast<int32_t>(fields.IntOr("shared_intermediate_size", 1, kMaxFfnDim, 3072));
  fields.IntOr("n_shared_experts", 1, 1, 1);
  const std::vector<bool> sparse = M3Flags(fields, "moe_layer_freq", config->num_layers);
  if (sparse.empty() || fields.Has("mlp_layer_types")) return ParseDenseLayers(fields, 0, config);
  for (const bool has_experts : sparse) config->experts.dense_layers.push_back(!has_experts);
}

// As published rotary_dim says how much of a head rotates; transformers reads the part from rope_parameters alone.
LlamaDefaults M3Defaults(JsonFields& fields) {
  LlamaDefaults defaults = {.max_context = 524288,
                            .head_dim = 128,
                            .ffn_dim = 3072,
                            .activation_field = nullptr,
                            .rotary = {.partial = true, .default_theta = 5e6}};
  if (fields.Has("rope_parameters")) return defaults;
  const int64_t head_dim = fields.IntOr("head_dim", 1, kMaxHeadDim, 128);
  const int64_t rotated = fields.IntOr("rotary_dim", 2, head_dim, std::min<int64_t>(head_dim, 64));
  // A quarter more keeps the product with head_dim from rounding below the integer.
  if (rotated < head_dim) {
    defaults.rotary.default_partial_factor = (static_cast<double>(rotated) + 0.25) / static_cast<double>(head_dim);
  }
  return defaults;
}

void ParseMinimaxM3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, M3Defaults(fields), config);
  if (!fields.IsText("hidden_act", "swigluoai")) RefuseOtherThan(fields, "hidden_act", "silu");
  SetClampedGate(fields, config);
  for (const char* name : {"use_gemma_norm", "use_qk_norm", "use_routing_bias"}) {
    if (!fields.BoolOr(name, true)) fields.Fail(absl::StrCat(name, " is false, which is not supported"));
  }
  RefuseOtherThan(fields, "qk_norm_type", "per_head");
  config->norm.weight_offset = 1.0F;
  config->attention.qk_norm = true;
  SetM3Experts(fields, config);
  if (fields.status().ok()) SetM3Index(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kMinimaxM3Names[] = {
    {kIndexQuery, kAll, "layers.#.self_attn.index_q_proj"},
    {kIndexQueryNorm, kAll, "layers.#.self_attn.index_q_norm"},
    {kIndexKey, kAll, "layers.#.self_attn.index_k_proj"},
    {kIndexKeyNorm, kAll, "layers.#.self_attn.index_k_norm"},
    {kSharedUp, kGate, "layers.#.block_sparse_moe.shared_experts.gate_proj"},
    {kSharedUp, kUp, "layers.#.block_sparse_moe.shared_experts.up_proj"},
    {kSharedDown, kAll, "layers.#.block_sparse_moe.shared_experts.down_proj"},
};
constexpr auto kMinimaxM3Weights = WithNorms(kLlamaQkNorms, kMinimaxExperts, kMinimaxM3Names);
constexpr const char* kMinimaxM3Types[] = {"minimax_m3_vl_text"};
constexpr const char* kMinimaxM3Outer[] = {"minimax_m3_vl"};

}  // namespace

extern const Architecture kMinimaxM3 = {.name = "minimax_m3",
                                        .model_types = kMinimaxM3Types,
                                        .parse_config = &ParseMinimaxM3,
                                        .names = {kLlamaPrefixes, kMinimaxM3Weights, kLlamaBuffers, kTextPartAliases},
                                        .multimodal_types = kMinimaxM3Outer,
                                        .any_text_type = true};

}  // namespace dunlin::engine
