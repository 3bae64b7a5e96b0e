// SPDX-License-Identifier: Apache-2.0
#include "engine/model/spec/rank_config.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

absl::Status Refused(const ModelConfig& config, int32_t num_ranks, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("models[].parallel.tensor is ", num_ranks, ", but ", config.architecture, " has ", why));
}

// Whether a layer has an MLP of MlpSpec::ffn_dim.
bool HasMlps(const ModelConfig& config) {
  if (config.mlp.ffn_dim == 0) return false;
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    if (config.has_mlp(layer) && (!config.experts.in_layer(layer) || config.experts.beside_mlp)) return true;
  }
  return false;
}

// Whether each rank gets a head: whole groups of queries or, where there are more ranks than groups, a part of one.
bool Divides(const HeadShape& heads, int32_t num_ranks) {
  if (heads.num_kv_heads >= num_ranks) return true;
  const int32_t group = heads.num_heads / heads.num_kv_heads;
  return num_ranks % heads.num_kv_heads == 0 && group >= num_ranks / heads.num_kv_heads;
}

absl::Status CheckHeads(const ModelConfig& config, int32_t num_ranks) {
  const kernels::DeltaShape& delta = config.delta.shape;
  const kernels::SsmShape& mamba = config.mamba.shape;
  const int32_t num_shapes = config.attention.layer_heads.empty() ? 1 : config.all_layers();
  for (int32_t layer = 0; config.num_kv_layers() > 0 && layer < num_shapes; ++layer) {
    const HeadShape attention = config.attention.heads(layer);
    if (Divides(attention, num_ranks)) continue;
    return Refused(config, num_ranks,
                   absl::StrCat(attention.num_heads, " heads that read ", attention.num_kv_heads,
                                " heads of keys and values; limit is as many ranks as these, or a multiple up to the "
                                "heads"));
  }
  const bool has_delta = delta.key_heads > 0;
  const bool whole_keys = !delta.tiled_values || delta.key_heads >= num_ranks;
  if (has_delta && (!whole_keys || !Divides({delta.value_heads, delta.key_heads, 0}, num_ranks))) {
    return Refused(config, num_ranks,
                   absl::StrCat("delta nets of ", delta.value_heads, delta.tiled_values ? " tiled" : "",
                                " heads of values and ", delta.key_heads, " of keys; limit is as many ranks as these",
                                delta.tiled_values ? "" : ", or a multiple up to those"));
  }
  if (mamba.num_heads == 0 || Divides({mamba.num_heads, mamba.num_groups, 0}, num_ranks)) return absl::OkStatus();
  return Refused(config, num_ranks,
                 absl::StrCat("Mamba2 layers of ", mamba.num_heads, " heads in ", mamba.num_groups,
                              " groups; limit is as many ranks as groups, or a multiple up to the heads"));
}

void DivideHeads(const ModelConfig& whole, int32_t rank, int32_t num_ranks, AttentionSpec* attention) {
  if (whole.num_kv_layers() == 0) return;
  const HeadShape widest = {whole.attention.num_heads, whole.attention.num_kv_heads, whole.attention.head_dim};
  const auto [query, kv] = HeadsOf(widest, rank, num_ranks);
  attention->num_heads = query.count;
  attention->num_kv_heads = kv.count;
  for (HeadShape& heads : attention->layer_heads) {
    const RankHeads part = HeadsOf(heads, rank, num_ranks);
    heads.num_heads = part.query.count;
    heads.num_kv_heads = part.kv.count;
  }
  const auto cut = [&whole, own = query](const std::vector<float>& all) {
    const auto per_head = static_cast<std::ptrdiff_t>(all.size()) / whole.attention.num_heads;
    const auto first = all.begin() + own.first * per_head;
    return std::vector<float>(first, first + own.count * per_head);
  };
  attention->alibi_slopes = cut(whole.attention.alibi_slopes);
  attention->key_bias = cut(whole.attention.key_bias);
}

void DivideMixers(const ModelConfig& whole, ModelConfig* part) {
  if (whole.delta.shape.key_heads > 0) {
    const auto [key, value] = DeltaHeadsOf(whole.delta.shape, part->rank, part->num_ranks);
    part->delta.shape.key_heads = key.count;
    part->delta.shape.value_heads = value.count * value.num_runs;
  }
  part->short_conv.channels = part->part(whole.short_conv.channels).count;
  if (whole.mamba.shape.num_heads == 0) return;
  const auto [heads, groups] = MambaHeadsOf(whole.mamba.shape, part->rank, part->num_ranks);
  part->mamba.shape.num_heads = heads.count;
  part->mamba.shape.num_groups = groups.count;
}

// Parts of a matrix's rows, one after another in the rank's.
class RowList {
 public:
  void Add(int64_t begin, int64_t count) {
    if (count > 0) rows_.push_back({begin, count, target_});
    target_ += count;
  }
  // Of units of `width` rows, the first of which is row `begin`.
  void AddUnits(int64_t begin, const RankPart& units, int64_t width) {
    Add(begin + units.first * width, units.count * width);
  }
  void AddRuns(int64_t begin, const HeadRuns& heads, int64_t width) {
    for (int64_t run = 0; run < heads.num_runs; ++run) {
      Add(begin + (heads.first + run * heads.stride) * width, heads.count * width);
    }
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

// The convolution's channels, each of `width` rows: queries, keys and values.
void AddDeltaChannels(const kernels::DeltaShape& whole, const RankDeltaHeads& heads, int64_t width, RowList* rows) {
  const int64_t keys = int64_t{whole.key_heads} * whole.key_dim * width;
  rows->AddUnits(0, heads.key, whole.key_dim * width);
  rows->AddUnits(keys, heads.key, whole.key_dim * width);
  rows->AddRuns(2 * keys, heads.value, whole.value_dim * width);
}

void AddDelta(const ModelConfig& config, WeightSlot slot, RowList* rows) {
  const DeltaSpec& delta = config.undivided().delta;
  const kernels::DeltaShape& shape = delta.shape;
  const RankDeltaHeads heads = DeltaHeadsOf(shape, config.rank, config.num_ranks);
  switch (slot) {
    case WeightSlot::kDeltaIn:
      AddDeltaChannels(shape, heads, 1, rows);
      if (delta.gate_rank == 0) rows->AddRuns(shape.channels(), heads.value, shape.value_dim);
      break;
    case WeightSlot::kDeltaConv:
      AddDeltaChannels(shape, heads, delta.conv_taps, rows);
      break;
    case WeightSlot::kDeltaGates:
      rows->AddRuns(0, heads.value, 1);
      if (!delta.decays_by_channel()) rows->AddRuns(shape.value_heads, heads.value, 1);
      rows->Add(shape.value_heads, int64_t{2} * delta.gate_rank);
      break;
    case WeightSlot::kDeltaOutputGate:
      rows->AddRuns(0, heads.value, shape.value_dim);
      break;
    case WeightSlot::kDeltaRate:
      rows->AddRuns(0, heads.value, 1);
      break;
    default:  // kDeltaDecay, kDeltaTimeBias
      rows->AddRuns(0, heads.value, delta.decay_features() / shape.value_heads);
  }
}

// As AddDeltaChannels: x, B and C.
void AddMambaChannels(const kernels::SsmShape& whole, const RankHeads& heads, int64_t width, int64_t begin,
                      RowList* rows) {
  const int64_t groups = int64_t{whole.num_groups} * whole.state_dim * width;
  const int64_t features = whole.features() * width;
  rows->AddUnits(begin, heads.query, whole.head_dim * width);
  rows->AddUnits(begin + features, heads.kv, whole.state_dim * width);
  rows->AddUnits(begin + features + groups, heads.kv, whole.state_dim * width);
}

void AddMamba(const ModelConfig& config, WeightSlot slot, RowList* rows) {
  const MambaSpec& mamba = config.undivided().mamba;
  const kernels::SsmShape& shape = mamba.shape;
  const RankHeads heads = MambaHeadsOf(shape, config.rank, config.num_ranks);
  switch (slot) {
    case WeightSlot::kMambaIn:
      rows->AddUnits(0, heads.query, shape.head_dim);
      AddMambaChannels(shape, heads, 1, shape.features(), rows);
      rows->AddUnits(shape.features() + shape.channels(), heads.query, 1);
      break;
    case WeightSlot::kMambaConv:
      AddMambaChannels(shape, heads, mamba.conv_taps, 0, rows);
      break;
    case WeightSlot::kMambaConvBias:
      AddMambaChannels(shape, heads, 1, 0, rows);
      break;
    default:  // kMambaRate, kMambaTimeBias, kMambaSkip
      rows->AddUnits(0, heads.query, 1);
  }
}

void AddShortConv(const ModelConfig& config, WeightSlot slot, RowList* rows) {
  const ShortConvSpec& conv = config.undivided().short_conv;
  const RankPart channels = config.part(conv.channels);
  const int64_t width = slot == WeightSlot::kShortConvTaps ? conv.taps : 1;
  const int64_t lists = slot == WeightSlot::kShortConvIn ? 3 : 1;  // B, C, x
  for (int64_t list = 0; list < lists; ++list) rows->AddUnits(list * conv.channels, channels, width);
}

void AddUp(const ModelConfig& config, int32_t ffn_dim, RowList* rows) {
  const RankPart part = config.part(ffn_dim);
  rows->Add(part.first, part.count);
  if (config.mlp.gated) rows->Add(int64_t{ffn_dim} + part.first, part.count);
}

// Whether ranks have equal parts of a matrix's rows, whatever these are.
bool IsCutEvenly(WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kAttentionOut:
    case WeightSlot::kDeltaOut:
    case WeightSlot::kShortConvOut:
    case WeightSlot::kMambaOut:
    case WeightSlot::kMlpDown:
    case WeightSlot::kLatentIn:
    case WeightSlot::kLatentOut:
    case WeightSlot::kExpertDown:
    case WeightSlot::kSharedDown:
    case WeightSlot::kPredictorIn:
    case WeightSlot::kLayerTable:
    case WeightSlot::kLayerProjection:
    case WeightSlot::kLayerInputGate:
    case WeightSlot::kLayerInputOut:
    case WeightSlot::kEmbedding:
    case WeightSlot::kHead:
    case WeightSlot::kPredictorHead:
      return true;
    default:
      return false;
  }
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

RankDeltaHeads DeltaHeadsOf(const kernels::DeltaShape& whole, int32_t rank, int32_t num_ranks) {
  const auto [value, key] = HeadsOf({whole.value_heads, whole.key_heads, 0}, rank, num_ranks);
  if (!whole.tiled_values) return {key, {value.first, value.count}};
  return {key, {key.first, key.count, whole.value_heads / whole.key_heads, whole.key_heads}};
}

RankHeads MambaHeadsOf(const kernels::SsmShape& whole, int32_t rank, int32_t num_ranks) {
  return HeadsOf({whole.num_heads, whole.num_groups, 0}, rank, num_ranks);
}

bool SharesMambaNorm(const ModelConfig& config) {
  const MambaSpec& whole = config.undivided().mamba;
  return whole.shape.num_heads > 0 && whole.norm != MambaNorm::kNone && whole.shape.num_groups < config.num_ranks;
}

absl::Status CheckDivisible(const ModelConfig& config, int32_t num_ranks) {
  if (num_ranks == 1) return absl::OkStatus();
  if (config.attention.is_compressed() || config.has_streams()) {
    return Refused(config, num_ranks, "attention over entries of groups of tokens, and residual streams; limit is 1");
  }
  if (absl::Status status = CheckHeads(config, num_ranks); !status.ok()) return status;
  std::vector<int32_t> widths = {config.hidden_dim, config.vocab_size};
  if (HasMlps(config)) widths.push_back(config.mlp.ffn_dim);
  for (const int32_t width : config.mlp.layer_dims) widths.push_back(width);
  if (config.has_experts()) widths.push_back(config.experts.ffn_dim);
  if (config.has_experts()) widths.push_back(config.expert_dim());
  if (config.short_conv.channels > 0) widths.push_back(config.short_conv.channels);
  if (config.has_experts() && config.experts.shared_ffn_dim > 0) widths.push_back(config.experts.shared_ffn_dim);
  if (config.has_layer_inputs()) widths.push_back(config.layer_inputs.width);
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
  DivideMixers(config, &part);
  const auto divide = [&](int32_t* width) { *width = *width == 0 ? 0 : PartOf(*width, rank, num_ranks).count; };
  if (HasMlps(config)) divide(&part.mlp.ffn_dim);
  for (int32_t& width : part.mlp.layer_dims) {
    divide(&width);
    part.mlp.ffn_dim = std::max(part.mlp.ffn_dim, width);
  }
  divide(&part.experts.ffn_dim);
  divide(&part.experts.shared_ffn_dim);
  return part;
}

RankShare ShareOf(const ModelConfig& config) {
  const bool attends = config.num_kv_layers() > 0;
  return {.heads = attends ? config.attention.num_heads : 0,
          .kv_heads = attends ? config.attention.num_kv_heads : 0,
          .recurrent_heads = std::max(config.delta.shape.value_heads, config.mamba.shape.num_heads),
          .channels = config.short_conv.channels,
          .ffn_dim = config.mlp.ffn_dim,
          .expert_ffn_dim = config.experts.ffn_dim,
          .hidden_columns = config.part(config.hidden_dim).count,
          .vocab_rows = config.part(config.vocab_size).count};
}

std::vector<RankRows> RankRowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  const ModelConfig& whole = config.undivided();
  const int64_t all = ShapeOf(whole, slot, layer).out_features;
  if (config.num_ranks == 1) return {{0, all, 0}};
  const int32_t num_heads = whole.attention.heads(layer).num_heads;
  const auto add_of_heads = [&](RowList* rows) {
    rows->AddUnits(0, HeadsOf(whole.attention.heads(layer), config.rank, config.num_ranks).query, all / num_heads);
  };
  RowList rows;
  switch (slot) {
    case WeightSlot::kQkv:
      AddQkv(config, layer, &rows);
      break;
    case WeightSlot::kAttentionGate:
    case WeightSlot::kAttentionSinks:
    case WeightSlot::kLatentQuery:
      add_of_heads(&rows);
      break;
    case WeightSlot::kDeltaIn:
    case WeightSlot::kDeltaGates:
    case WeightSlot::kDeltaDecay:
    case WeightSlot::kDeltaOutputGate:
    case WeightSlot::kDeltaConv:
    case WeightSlot::kDeltaRate:
    case WeightSlot::kDeltaTimeBias:
      AddDelta(config, slot, &rows);
      break;
    case WeightSlot::kShortConvIn:
    case WeightSlot::kShortConvTaps:
    case WeightSlot::kShortConvBias:
      AddShortConv(config, slot, &rows);
      break;
    case WeightSlot::kMambaIn:
    case WeightSlot::kMambaConv:
    case WeightSlot::kMambaConvBias:
    case WeightSlot::kMambaRate:
    case WeightSlot::kMambaTimeBias:
    case WeightSlot::kMambaSkip:
      AddMamba(config, slot, &rows);
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
    default:
      if (IsCutEvenly(slot)) {
        rows.AddUnits(0, config.part(static_cast<int32_t>(all)), 1);
      } else {
        rows.Add(0, all);
      }
  }
  return rows.Take();
}

std::vector<RankRows> RankRowsIn(const ModelConfig& config, const WeightPlace& place, int64_t first, int64_t count) {
  std::vector<RankRows> rows;
  const int32_t index = PlaceInRank(config, place).index;
  if (index < 0 || index >= NumWeights(config, place.slot)) return rows;
  for (const RankRows& range : RankRowsOf(config, place.slot, place.layer)) {
    const int64_t begin = std::max(first, range.begin);
    const int64_t end = std::min(first + count, range.begin + range.count);
    if (begin < end) rows.push_back({begin - first, end - begin, range.target + begin - range.begin});
  }
  return rows;
}

WeightPlace PlaceInRank(const ModelConfig& config, const WeightPlace& place) {
  if (config.num_ranks == 1 || !IsPerHead(place.slot)) return place;
  const HeadShape heads = config.undivided().attention.heads(place.layer);
  return {place.slot, place.layer, place.index - HeadsOf(heads, config.rank, config.num_ranks).query.first};
}

}  // namespace dunlin::engine
