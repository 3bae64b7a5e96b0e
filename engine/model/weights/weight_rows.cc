// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_rows.h"

namespace dunlin::engine {
namespace {

// The heads of Q that share head h of K, then heads h of K and V, are in rows [(group + 2) h, (group + 2) (h + 1)) *
// head_dim of the tensor.
std::vector<RowRange> RowsByHead(const ModelConfig& config) {
  std::vector<RowRange> ranges;
  const int64_t head_dim = config.attention.head_dim;
  const int64_t group = config.attention.num_heads / config.attention.num_kv_heads;
  for (int64_t head = 0; head < config.attention.num_kv_heads; ++head) {
    const int64_t first = (group + 2) * head;
    ranges.push_back({group * head * head_dim, group * head_dim, first * head_dim});
    ranges.push_back({(config.attention.num_heads + head) * head_dim, head_dim, (first + group) * head_dim});
    ranges.push_back({(config.attention.num_heads + config.attention.num_kv_heads + head) * head_dim, head_dim,
                      (first + group + 1) * head_dim});
  }
  return ranges;
}

// The tensor has head after head rows of Q (half 0), then as many of the gate (half 1).
std::vector<RowRange> RowsOfPairs(const ModelConfig& config, int64_t half) {
  std::vector<RowRange> ranges;
  const int64_t head_dim = config.attention.head_dim;
  for (int64_t head = 0; head < config.attention.num_heads; ++head) {
    ranges.push_back({head * head_dim, head_dim, (2 * head + half) * head_dim});
  }
  return ranges;
}

// Of each key head its query and key, then the values and the z of the value heads that take it.
std::vector<RowRange> DeltaRowsByHead(const DeltaSpec& delta) {
  std::vector<RowRange> ranges;
  const kernels::DeltaShape& shape = delta.shape;
  const int64_t keys = int64_t{shape.key_heads} * shape.key_dim;
  const int64_t values = shape.value_features() / shape.key_heads;  // of a key head
  for (int64_t head = 0; head < shape.key_heads; ++head) {
    const int64_t source = head * 2 * (shape.key_dim + values);
    ranges.push_back({head * shape.key_dim, shape.key_dim, source});
    ranges.push_back({keys + head * shape.key_dim, shape.key_dim, source + shape.key_dim});
    ranges.push_back({2 * keys + head * values, values, source + 2 * int64_t{shape.key_dim}});
    ranges.push_back({delta.channels() + head * values, values, source + 2 * int64_t{shape.key_dim} + values});
  }
  return ranges;
}

// Of the channels of a delta net, or their taps: part 0 queries, 1 keys, 2 values.
std::vector<RowRange> RowsOfChannels(const DeltaSpec& delta, WeightSlot slot, int32_t part) {
  const int64_t taps = slot == WeightSlot::kDeltaConv ? delta.conv_taps : 1;
  const int64_t keys = int64_t{delta.shape.key_heads} * delta.shape.key_dim;
  return {{taps * part * keys, taps * (part < 2 ? keys : delta.shape.value_features())}};
}

// Of each key head the b of the value heads that take it, then their a.
std::vector<RowRange> GateRowsByHead(const DeltaSpec& delta) {
  std::vector<RowRange> ranges;
  const int64_t values = delta.shape.value_heads / delta.shape.key_heads;  // heads
  for (int64_t head = 0; head < delta.shape.key_heads; ++head) {
    ranges.push_back({head * values, values, 2 * head * values});
    ranges.push_back({delta.shape.value_heads + head * values, values, (2 * head + 1) * values});
  }
  return ranges;
}

// z, x, B, C and steps.
std::vector<RowRange> MambaRows(const MambaSpec& mamba) {
  const int64_t group = int64_t{mamba.shape.num_groups} * mamba.shape.state_dim;
  std::vector<RowRange> ranges;
  int64_t row = 0;
  for (const int64_t count : {int64_t{mamba.output_features()}, int64_t{mamba.output_features()}, group, group,
                              int64_t{mamba.shape.num_heads}}) {
    ranges.push_back({row, count, row});
    row += count;
  }
  return ranges;
}

}  // namespace

std::vector<RowRange> RowsOf(const ModelConfig& config, WeightSlot slot, int32_t layer, FusedPart part) {
  const int64_t query = config.attention.query_features(layer);
  const HeadShape heads = config.attention.heads(layer);
  const int64_t key = int64_t{heads.num_kv_heads} * heads.head_dim;
  const int64_t out_features = ShapeOf(config, slot, layer).out_features;
  switch (part) {
    case FusedPart::kAll:
      return {{0, out_features}};
    case FusedPart::kQuery:
      return {{0, query}};
    case FusedPart::kKey:
      return {{query, key}};
    case FusedPart::kValue:
      return {{query + key, key}};
    case FusedPart::kKeyAndValue:
      return {{query, key, 0}, {query + key, key, 0}};
    case FusedPart::kGate:
      return {{0, out_features / 2}};
    case FusedPart::kUp:
      return {{out_features / 2, out_features / 2}};
    case FusedPart::kLatentAndRotary:
      return {{config.attention.latent.rope_dim, config.attention.latent.kv_rank, 0},
              {0, config.attention.latent.rope_dim, config.attention.latent.kv_rank}};
    case FusedPart::kExperts:
      return {{0, config.experts.routing.num_experts}};
    case FusedPart::kSharedGate:
      return {{config.experts.routing.num_experts, 1}};
    case FusedPart::kQkvByHead:
      return RowsByHead(config);
    case FusedPart::kQueryOfPairs:
      return RowsOfPairs(config, 0);
    case FusedPart::kGateOfPairs:
      return RowsOfPairs(config, 1);
    case FusedPart::kDeltaQkv:
      return {{0, config.delta.channels()}};
    case FusedPart::kDeltaZ:
      return {{config.delta.channels(), config.delta.output_features()}};
    case FusedPart::kDeltaQkvzByHead:
      return DeltaRowsByHead(config.delta);
    case FusedPart::kDeltaQuery:
      return RowsOfChannels(config.delta, slot, 0);
    case FusedPart::kDeltaKey:
      return RowsOfChannels(config.delta, slot, 1);
    case FusedPart::kDeltaValue:
      return RowsOfChannels(config.delta, slot, 2);
    case FusedPart::kBeta:
      return {{0, config.delta.shape.value_heads}};
    case FusedPart::kAlpha:
      return {{config.delta.shape.value_heads, config.delta.shape.value_heads}};
    case FusedPart::kBetaAlphaByHead:
      return GateRowsByHead(config.delta);
    case FusedPart::kDecayRank:
      return {{config.delta.shape.value_heads, config.delta.gate_rank}};
    case FusedPart::kOutputGateRank:
      return {{config.delta.shape.value_heads + config.delta.gate_rank, config.delta.gate_rank}};
    case FusedPart::kMambaBlocks:
      return MambaRows(config.mamba);
    case FusedPart::kCurvePositive:
      return {{0, 1}};
    case FusedPart::kCurveNegative:
      return {{1, 1}};
    case FusedPart::kCurveBeta:
      return {{2, 1}};
    case FusedPart::kCurveEpsilon:
      return {{3, 1}};
  }
  return {};
}

int64_t TensorRows(const ModelConfig& config, FusedPart part, const std::vector<RowRange>& ranges) {
  if (part == FusedPart::kQueryOfPairs || part == FusedPart::kGateOfPairs) {
    return 2 * int64_t{config.attention.num_heads} * config.attention.head_dim;
  }
  if (part == FusedPart::kKeyAndValue) return ranges.front().count;
  int64_t rows = 0;
  for (const RowRange& range : ranges) rows += range.count;
  return rows;
}

}  // namespace dunlin::engine
