// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/rank_config.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

struct Undivided {
  const char* part;
  bool (*has)(const ModelConfig& config);
};

// Layers that exist undivided alone.
constexpr Undivided kUndivided[] = {
    {"an encoder's layers", [](const ModelConfig& c) { return c.is_encoder(); }},
    {"recurrent layers", [](const ModelConfig& c) { return c.is_recurrent(); }},
    {"heads of several shapes", [](const ModelConfig& c) { return !c.attention.layer_heads.empty(); }},
    {"latent attention", [](const ModelConfig& c) { return c.attention.is_latent(); }},
    {"per-layer embeddings", [](const ModelConfig& c) { return c.has_layer_inputs(); }},
    {"norms after the sums of its layers",
     [](const ModelConfig& c) { return c.norm.placement == NormPlacement::kPost; }},
    {"one norm over the heads of its queries", [](const ModelConfig& c) { return c.attention.qk_norm_joint; }},
    {"experts in addition to the MLP of a layer", [](const ModelConfig& c) { return c.experts.beside_mlp; }},
    {"a layer that predicts further tokens (models[].speculation.draft is \"mtp\")",
     [](const ModelConfig& c) { return c.num_predictors > 0; }},
    {"experts behind a projection", [](const ModelConfig& c) { return c.experts.latent_dim > 0; }},
};

absl::Status Refused(const ModelConfig& config, int32_t num_ranks, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("models[].parallel.tensor is ", num_ranks, ", but ", config.architecture, " has ", why));
}

// Whether each rank gets a head: whole groups of queries or, where there are more ranks than groups, a part of one.
bool Divides(const HeadShape& heads, int32_t num_ranks) {
  if (heads.num_kv_heads >= num_ranks) return true;
  const int32_t group = heads.num_heads / heads.num_kv_heads;
  return num_ranks % heads.num_kv_heads == 0 && group >= num_ranks / heads.num_kv_heads;
}

void DivideHeads(const ModelConfig& whole, int32_t rank, int32_t num_ranks, AttentionSpec* attention) {
  const auto [query, kv] = HeadsOf(whole.attention.heads(0), rank, num_ranks);
  attention->num_heads = query.count;
  attention->num_kv_heads = kv.count;
  const auto cut = [&whole, own = query](const std::vector<float>& all) {
    const auto per_head = static_cast<std::ptrdiff_t>(all.size()) / whole.attention.num_heads;
    const auto first = all.begin() + own.first * per_head;
    return std::vector<float>(first, first + own.count * per_head);
  };
  attention->alibi_slopes = cut(whole.attention.alibi_slopes);
  attention->key_bias = cut(whole.attention.key_bias);
}

// Parts of a matrix's rows, one after another in the rank's.
class RowList {
 public:
  void Add(int64_t begin, int64_t count) {
    if (count > 0) rows_.push_back({begin, count, target_});
    target_ += count;
  }
  std::vector<RankRows> Take() { return std::move(rows_); }

 private:
  std::vector<RankRows> rows_;
  int64_t target_ = 0;
};

void AddQkv(const ModelConfig& config, int32_t layer, RowList* rows) {
  const AttentionSpec& attention = config.undivided().attention;
  const HeadShape heads = attention.heads(layer);
  const RankHeads part = HeadsOf(heads, config.rank, config.num_ranks);
  const int64_t dim = heads.head_dim;
  rows->Add(part.query.first * dim, part.query.count * dim);
  if (!attention.stores_kv(layer)) return;
  rows->Add((heads.num_heads + part.kv.first) * dim, part.kv.count * dim);
  rows->Add((heads.num_heads + heads.num_kv_heads + part.kv.first) * dim, part.kv.count * dim);
}

void AddUp(const ModelConfig& config, int32_t ffn_dim, RowList* rows) {
  const RankPart part = config.part(ffn_dim);
  rows->Add(part.first, part.count);
  if (config.mlp.gated) rows->Add(int64_t{ffn_dim} + part.first, part.count);
}

}  // namespace

RankHeads HeadsOf(const HeadShape& whole, int32_t rank, int32_t num_ranks) {
  const int32_t group = whole.num_heads / whole.num_kv_heads;
  if (whole.num_kv_heads >= num_ranks) {
    const RankPart kv = PartOf(whole.num_kv_heads, rank, num_ranks);
    return {{kv.first * group, kv.count * group}, kv};
  }
  const int32_t sharers = num_ranks / whole.num_kv_heads;  // ranks of a head of K and V
  const int32_t kv = rank / sharers;
  const RankPart query = PartOf(group, rank % sharers, sharers);
  return {{kv * group + query.first, query.count}, {kv, 1}};
}

absl::Status CheckDivisible(const ModelConfig& config, int32_t num_ranks) {
  if (num_ranks == 1) return absl::OkStatus();
  for (const Undivided& row : kUndivided) {
    if (row.has(config))
      return Refused(config, num_ranks, absl::StrCat(row.part, "; models with such parts are not divided"));
  }
  if (const HeadShape heads = config.attention.heads(0); !Divides(heads, num_ranks)) {
    return Refused(config, num_ranks,
                   absl::StrCat(heads.num_heads, " heads that read ", heads.num_kv_heads,
                                " heads of keys and values; limit is as many ranks as these, or a multiple up to the "
                                "heads"));
  }
  std::vector<int32_t> widths = {config.hidden_dim, config.vocab_size};
  if (config.mlp.ffn_dim > 0) widths.push_back(config.mlp.ffn_dim);
  for (const int32_t width : config.mlp.layer_dims) widths.push_back(width);
  if (config.has_experts()) widths.push_back(config.experts.ffn_dim);
  if (config.has_experts() && config.experts.shared_ffn_dim > 0) widths.push_back(config.experts.shared_ffn_dim);
  const int32_t least = *std::min_element(widths.begin(), widths.end());
  if (least >= num_ranks) return absl::OkStatus();
  return Refused(config, num_ranks, absl::StrCat("a dimension of ", least, "; limit is as many ranks"));
}

ModelConfig RankConfig(const ModelConfig& config, int32_t rank, int32_t num_ranks) {
  ModelConfig part = config;
  if (num_ranks == 1) return part;
  part.rank = rank;
  part.num_ranks = num_ranks;
  part.whole = std::make_shared<const ModelConfig>(config);
  DivideHeads(config, rank, num_ranks, &part.attention);
  const auto divide = [&](int32_t* width) { *width = *width == 0 ? 0 : PartOf(*width, rank, num_ranks).count; };
  divide(&part.mlp.ffn_dim);
  for (int32_t& width : part.mlp.layer_dims) {
    divide(&width);
    part.mlp.ffn_dim = std::max(part.mlp.ffn_dim, width);
  }
  divide(&part.experts.ffn_dim);
  divide(&part.experts.shared_ffn_dim);
  return part;
}

std::vector<RankRows> RankRowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  const ModelConfig& whole = config.undivided();
  const int64_t all = ShapeOf(whole, slot, layer).out_features;
  if (config.num_ranks == 1) return {{0, all, 0}};
  const HeadShape heads = whole.attention.heads(layer);
  const RankPart query = HeadsOf(heads, config.rank, config.num_ranks).query;
  const auto add_part = [&](int64_t total, RowList* rows) {
    const RankPart part = config.part(static_cast<int32_t>(total));
    rows->Add(part.first, part.count);
  };
  RowList rows;
  switch (slot) {
    case WeightSlot::kQkv:
      AddQkv(config, layer, &rows);
      break;
    case WeightSlot::kAttentionGate:
      rows.Add(query.first * all / heads.num_heads, query.count * all / heads.num_heads);
      break;
    case WeightSlot::kAttentionSinks:
      rows.Add(query.first, query.count);
      break;
    case WeightSlot::kMlpUp:
      AddUp(config, whole.mlp.dim_of(layer), &rows);
      break;
    case WeightSlot::kExpertUp:
      AddUp(config, whole.experts.ffn_dim, &rows);
      break;
    case WeightSlot::kSharedUp:
      AddUp(config, whole.experts.shared_ffn_dim, &rows);
      break;
    case WeightSlot::kAttentionOut:
    case WeightSlot::kMlpDown:
    case WeightSlot::kExpertDown:
    case WeightSlot::kSharedDown:
    case WeightSlot::kEmbedding:
    case WeightSlot::kHead:
      add_part(all, &rows);
      break;
    default:
      rows.Add(0, all);
  }
  return rows.Take();
}

std::vector<RankRows> RankRowsIn(const ModelConfig& config, const WeightPlace& place, int64_t first, int64_t count) {
  std::vector<RankRows> rows;
  for (const RankRows& range : RankRowsOf(config, place.slot, place.layer)) {
    const int64_t begin = std::max(first, range.begin);
    const int64_t end = std::min(first + count, range.begin + range.count);
    if (begin < end) rows.push_back({begin - first, end - begin, range.target + begin - range.begin});
  }
  return rows;
}

}  // namespace dunlin::engine
