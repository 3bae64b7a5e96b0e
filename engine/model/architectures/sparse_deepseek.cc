// SPDX-License-Identifier: Apache-2.0
// DeepSeek V3.2, and GLM 5 to 5.2: DeepSeek V3 with an indexer, by which a row attends to the keys that matter most. In
// GLM 5.2 some layers see the keys that the indexer of an earlier one chose. Layers behind the last that predict
// further tokens are not served. Source: transformers 5.24, models/deepseek_v32, models/glm_moe_dsa.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/deepseek_family.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxIndexDim = 512;  // what devices take
constexpr int64_t kIndexTopK = 2048;

void ParseIndexer(JsonFields& fields, int64_t num_heads, bool neighbours, ModelConfig* config) {
  const LatentAttentionSpec& latent = config->attention.latent;
  const int64_t heads = fields.IntOr("index_n_heads", 1, kMaxHeads, num_heads);
  const int64_t dim = fields.IntOr("index_head_dim", 2, kMaxIndexDim, 128);
  const int64_t top_k = fields.IntOr("index_topk", 1, kMaxContextTokens, kIndexTopK);
  if (!fields.status().ok()) return;
  if (latent.query_rank == 0) return fields.Fail("q_lora_rank is null, which is not supported with an indexer");
  if (dim % 2 != 0 || dim < latent.rope_dim) {
    return fields.Fail(
        absl::StrCat("index_head_dim is ", dim, "; must be even and at least qk_rope_head_dim, ", latent.rope_dim));
  }
  config->attention.indexer = {.num_heads = static_cast<int32_t>(heads),
                               .dim = static_cast<int32_t>(dim),
                               .top_k = static_cast<int32_t>(top_k),
                               .neighbours = neighbours,
                               .shared = {}};
}

// Of index_topk_pattern, "FSSF..." or the words of indexer_types.
std::vector<std::string> PatternOf(JsonFields& fields) {
  std::vector<std::string> types = fields.TextListOr("indexer_types", kMaxLayers);
  if (!types.empty()) return types;
  for (const char letter : fields.TextOr("index_topk_pattern", "")) {
    types.emplace_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : std::string(1, letter));
  }
  return types;
}

// indexer_types, index_topk_pattern, or every index_topk_freq-th layer after the first index_skip_topk_offset has one.
void ParseSharedLayers(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = PatternOf(fields);
  const int64_t every = fields.IntOr("index_topk_freq", 1, kMaxLayers, 1);
  const int64_t offset = fields.IntOr("index_skip_topk_offset", 0, kMaxLayers, 2);
  if (!fields.status().ok()) return;
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!types.empty() && types.size() != num_layers) {
    return fields.Fail(absl::StrCat("indexer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const int64_t after = std::max<int64_t>(static_cast<int64_t>(layer) - offset + 1, 0);
    const bool shared = types.empty() ? after % every != 0 : types[layer] == "shared";
    if (!types.empty() && !shared && types[layer] != "full") {
      return fields.Fail(
          absl::StrCat("indexer_types[", layer, "] is '", types[layer].substr(0, 32), "'; known: full, shared"));
    }
    config->attention.indexer.shared.push_back(shared);
  }
  if (config->attention.indexer.shared.front()) fields.Fail("the first layer has no indexer, and no layer before it");
}

void ParseDeepseekV32(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields, {.max_context = 163840}, config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 2048},
                       1, 3, config);
  RefuseOtherThan(fields, "topk_method", "noaux_tc");
  ParseGroupedRouting(fields, {.num_groups = 8, .chosen_groups = 4, .scale = 2.5}, config);
  config->rotary.interleaved = true;
  ParseIndexer(fields, 64, false, config);
}

void ParseGlmMoeDsa(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields, {.max_context = 202752, .norm_epsilon = 1e-5, .query_rank = 2048}, config);
  ParseDeepseekExperts(fields,
                       {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 2048},
                       1, 3, config);
  RefuseOtherThan(fields, "topk_method", "noaux_tc");
  ParseGroupedRouting(fields, {.scale = 2.5}, config);
  config->rotary.interleaved = true;
  ParseIndexer(fields, 32, true, config);
  ParseSharedLayers(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kIndexerNames[] = {
    {kIndexQuery, kAll, "layers.#.self_attn.indexer.wq_b"},
    {kIndexKey, kAll, "layers.#.self_attn.indexer.wk"},
    {kIndexKeyNorm, kAll, "layers.#.self_attn.indexer.k_norm"},
    {kIndexWeights, kAll, "layers.#.self_attn.indexer.weights_proj"},
};
constexpr auto kSparseWeights = WithLatentAttention(kLlamaExperts, kDeepseekExperts, kIndexerNames);
constexpr const char* kV32Types[] = {"deepseek_v32"};
constexpr const char* kGlmDsaTypes[] = {"glm_moe_dsa"};

// Which layers have an indexer is told by their tensors.
void WriteGgufGlmDsa(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufRouting(config, 1, 1);
  (*config)["index_n_heads"] = config->Required("attention.indexer.head_count", 1, kMaxHeads);
  (*config)["index_head_dim"] = config->Required("attention.indexer.key_length", 2, kMaxIndexDim);
  (*config)["index_topk"] = config->Required("attention.indexer.top_k", 1, kMaxContextTokens);
  (*config)["indexer_types"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool full = config->HasTensor(absl::StrCat("blk.", layer, ".indexer.attn_k.weight"));
    (*config)["indexer_types"].push_back(full ? "full" : "shared");
  }
}

constexpr GgufForm kGlmDsaGguf[] = {{.name = "glm-dsa",
                                     .weights = gguf_names::kSparseLatent,
                                     .write_fields = &WriteGgufGlmDsa,
                                     .experts = true,
                                     .latent_attention = true}};

}  // namespace

extern const Architecture kDeepseekV32 = {.name = "deepseek_v32",
                                          .model_types = kV32Types,
                                          .parse_config = &ParseDeepseekV32,
                                          .names = {kLlamaPrefixes, kSparseWeights, kLlamaBuffers, kDeepseekAliases}};
extern const Architecture kGlmMoeDsa = {.name = "glm_moe_dsa",
                                        .model_types = kGlmDsaTypes,
                                        .parse_config = &ParseGlmMoeDsa,
                                        .names = {kLlamaPrefixes, kSparseWeights, kLlamaBuffers, kDeepseekAliases},
                                        .gguf = kGlmDsaGguf};

}  // namespace dunlin::engine
