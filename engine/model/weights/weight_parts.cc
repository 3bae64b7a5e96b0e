// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/model/weights/part_shape.h"
#include "engine/model/weights/weight_rows.h"

namespace dunlin::engine {
namespace {

constexpr size_t kMaxNamedMissing = 4;
// What a layer that predicts has besides its mixers: DeepSeek V3's names, which RenamedTensors gives others, too.
constexpr WeightName kPredictorNames[] = {
    {WeightSlot::kPredictorEmbeddingNorm, FusedPart::kAll, "layers.#.enorm"},
    {WeightSlot::kPredictorHiddenNorm, FusedPart::kAll, "layers.#.hnorm"},
    {WeightSlot::kPredictorIn, FusedPart::kAll, "layers.#.eh_proj"},
    {WeightSlot::kPredictorFinalNorm, FusedPart::kAll, "layers.#.shared_head.norm"},
    {WeightSlot::kPredictorHead, FusedPart::kAll, "layers.#.shared_head.head"},
};
constexpr std::string_view kIndex = ".@";  // of an expert or head, in a name

std::string FullName(const WeightName& name, const std::string& prefix, const WeightPlace& place) {
  std::string full = name.prefixed ? prefix : "";
  for (const char* c = name.name; *c != '\0'; ++c) {
    if (*c == '#') {
      absl::StrAppend(&full, place.layer);
    } else if (*c == '@' && place.index >= 0) {
      absl::StrAppend(&full, place.index);
    } else {
      full += *c;
    }
  }
  return full;
}

// The factor that a matrix or norm takes from the config, for its first `rows` rows.
struct RowScale {
  int64_t rows = 0;
  float factor = 1.0F;
};

RowScale ScaleOf(const ModelConfig& config, const WeightPlace& place, int64_t tensor_rows) {
  switch (RowOf(place.slot).factor) {
    case SlotFactor::kUnscaled:
      return {};
    case SlotFactor::kInverseLayer:
      if (!config.attention.inverse_layer_scale || place.layer == 0) return {};
      return {config.attention.query_features(place.layer), 1.0F / static_cast<float>(place.layer + 1)};
    case SlotFactor::kLayerInput:
      return {tensor_rows, static_cast<float>(std::sqrt(0.5))};
    case SlotFactor::kRouterInput:
      return {tensor_rows, static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.hidden_dim)))};
    case SlotFactor::kResidual:
      return config.residual_scale == 1.0F ? RowScale{} : RowScale{tensor_rows, config.residual_scale};
    case SlotFactor::kLogit:
      return config.head.scale == 1.0F ? RowScale{} : RowScale{tensor_rows, config.head.scale};
  }
  return {};
}

// The factor of a part's `range`, whose rows of the slot's matrix begin at row_begin.
float ProductFactorOf(const ModelConfig& config, const WeightPlace& place, size_t range, int64_t row_begin) {
  const ProductFactors& factors = config.factors;
  switch (place.slot) {
    case WeightSlot::kQkv: {
      const HeadShape heads = config.attention.heads(place.layer);
      const int64_t first_key = config.attention.query_features(place.layer);
      if (row_begin < first_key) return factors.query;
      return row_begin < first_key + int64_t{heads.num_kv_heads} * heads.head_dim ? factors.key : factors.value;
    }
    case WeightSlot::kAttentionOut:
      return factors.attention_out;
    case WeightSlot::kMambaIn:
      return range < factors.mamba_in.size() ? factors.mamba_in[range] : 1.0F;
    case WeightSlot::kMambaOut:
      return factors.mamba_out;
    case WeightSlot::kMlpUp:
      return row_begin == 0 ? factors.mlp_gate : 1.0F;
    case WeightSlot::kMlpDown:
      return factors.mlp_down;
    default:
      return 1.0F;
  }
}

void AppendTensor(const ModelConfig& config, const WeightName& name, const std::string& prefix,
                  const WeightPlace& place, bool is_bias, std::vector<WeightPart>* parts) {
  const std::vector<RowRange> ranges = RowsOf(config, name.slot, place.layer, name.part);
  const int64_t tensor_rows = TensorRows(config, name.part, ranges);
  const int64_t columns = ShapeOf(config, name.slot, place.layer).in_features;
  WeightPart part{.slot = name.slot,
                  .layer = place.layer,
                  .index = place.index,
                  .is_bias = is_bias,
                  .transposed = name.transposed && !is_bias,
                  .tensor = absl::StrCat(FullName(name, prefix, place), is_bias ? name.bias : name.weight),
                  .shape = {},
                  .row_begin = 0,
                  .num_rows = 0,
                  .source_row = 0,
                  .scaled_rows = 0,
                  .scale = 1.0F};
  if (name.slot == WeightSlot::kDeltaConv) {
    const int64_t taps = config.delta.conv_taps;
    part.shape = {tensor_rows / taps, 1, taps};  // as PyTorch's Conv1d has it
  } else if (name.slot == WeightSlot::kShortConvTaps) {
    part.shape = {config.short_conv.channels, 1, config.short_conv.taps};
  } else if (name.slot == WeightSlot::kMambaConv) {
    part.shape = {config.mamba.channels(), 1, config.mamba.conv_taps};
  } else if (part.is_vector()) {
    part.shape = {tensor_rows};
  } else if (part.transposed) {
    part.shape = {columns, tensor_rows};
  } else {
    part.shape = {tensor_rows, columns};
  }
  if (name.slot == WeightSlot::kOutDown) part.shape[0] *= config.attention.compressed.out_groups;  // of one tensor
  const RowScale scale = ScaleOf(config, place, tensor_rows);
  for (size_t i = 0; i < ranges.size(); ++i) {
    part.row_begin = ranges[i].begin;
    part.num_rows = ranges[i].count;
    part.source_row = ranges[i].source + (name.slot == WeightSlot::kOutDown ? place.index * tensor_rows : 0);
    const float factor = ProductFactorOf(config, place, i, part.row_begin);
    part.scaled_rows = factor == 1.0F ? scale.rows : part.row_begin + part.num_rows;
    part.scale = factor == 1.0F ? scale.factor : factor;
    parts->push_back(part);
  }
}

// Whether the layer has this part of a slot that it has.
bool HasPart(const ModelConfig& config, FusedPart part, int32_t layer) {
  const bool stores = config.attention.stores_kv(layer);
  const bool shared = config.attention.has_keys_as_values(layer);
  switch (part) {
    case FusedPart::kSharedGate:
      return config.experts.shared_gate;
    case FusedPart::kKeyAndValue:
      return stores && shared;
    case FusedPart::kKey:
    case FusedPart::kValue:
      return stores && !shared;
    default:
      return true;
  }
}

void AppendParts(const CheckpointNames& names, const ModelConfig& config, const std::string& prefix, int32_t layer,
                 bool per_layer, std::vector<WeightPart>* parts) {
  for (const WeightName& name : names.weights) {
    if (IsPerLayer(name.slot) != per_layer || !HasSlot(config, name.slot, layer)) continue;
    if (!HasPart(config, name.part, layer)) continue;
    for (int32_t i = 0; i < NumWeights(config, name.slot); ++i) {
      const WeightPlace place{name.slot, layer, i};
      AppendTensor(config, name, prefix, place, false, parts);
      const bool has_bias = HasBias(config, name.slot) && name.part != FusedPart::kSharedGate;
      if (has_bias) AppendTensor(config, name, prefix, place, true, parts);
    }
  }
}

int64_t Elements(const WeightPart& part) {
  return part.num_rows * (part.is_vector() ? 1 : part.shape[part.transposed ? 0 : 1]);
}

// The tensors that hold the matrices of all experts or heads of a layer.
std::vector<ExpertStack> ListStacks(const CheckpointNames& names, const ModelConfig& config, const std::string& prefix,
                                    bool (*is_stacked)(WeightSlot)) {
  std::vector<ExpertStack> stacks;
  for (const WeightName& name : names.weights) {
    for (int32_t layer = 0; is_stacked(name.slot) && layer < config.all_layers(); ++layer) {
      if (!HasSlot(config, name.slot, layer)) continue;
      const std::string one = FullName(name, prefix, {name.slot, layer, -1});
      std::string stack = one;
      stack.erase(stack.find(kIndex), kIndex.size());
      for (const char* ending : {name.weight, name.bias}) {
        stacks.push_back({absl::StrCat(stack, ending), absl::StrCat(one, ending)});
      }
    }
  }
  return stacks;
}

// Whether one tensor holds the keys' and the values' matrices of a head: names of its parts follow the index.
bool HeadsShareTensor(const CheckpointNames& names) {
  return std::any_of(names.weights.begin(), names.weights.end(), [](const WeightName& name) {
    return IsPerHead(name.slot) && !std::string_view(name.name).ends_with(kIndex);
  });
}

}  // namespace

std::string FindPrefix(const CheckpointNames& names, const TensorSource& source) {
  for (const char* prefix : names.prefixes) {
    for (const WeightName& name : names.weights) {
      const bool leads = name.slot == WeightSlot::kEmbedding || name.slot == WeightSlot::kPatchEmbedding ||
                         name.slot == WeightSlot::kFinalNorm;
      if (leads && source.Find(absl::StrCat(prefix, name.name, ".weight")) != nullptr) return prefix;
    }
  }
  return names.prefixes.front();
}

std::vector<WeightPart> ListWeightParts(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix) {
  std::vector<WeightPart> parts;
  AppendParts(names, config, prefix, 0, false, &parts);
  const CheckpointNames of_predictors{.prefixes = names.prefixes, .weights = kPredictorNames};
  for (int32_t layer = config.num_layers; layer < config.all_layers(); ++layer) {
    AppendParts(of_predictors, config, prefix, layer, true, &parts);
  }
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    AppendParts(names, config, prefix, layer, true, &parts);
  }
  return parts;
}

std::vector<ExpertStack> ListExpertStacks(const CheckpointNames& names, const ModelConfig& config,
                                          const std::string& prefix) {
  return ListStacks(names, config, prefix, &IsPerExpert);
}

void SelectNames(const ModelConfig& config, const std::string& prefix, const TensorSource& source,
                 CheckpointNames* names) {
  CheckpointNames stacked = *names;
  stacked.weights = names->stacked;
  for (const ExpertStack& stack : ListExpertStacks(stacked, config, prefix)) {
    if (source.Find(stack.stack) == nullptr) continue;
    *names = stacked;
    return;
  }
}

std::vector<ExpertStack> ListHeadStacks(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix) {
  if (HeadsShareTensor(names)) return {};
  return ListStacks(names, config, prefix, &IsPerHead);
}

std::vector<TensorSlice> ListHeadSlices(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix) {
  if (!HeadsShareTensor(names)) return {};
  const LatentAttentionSpec& latent = config.attention.latent;
  const int64_t rows = latent.plain_dim + latent.value_dim;  // of a head
  std::vector<TensorSlice> slices;
  for (const WeightName& name : names.weights) {
    for (int32_t layer = 0; IsPerHead(name.slot) && layer < config.all_layers(); ++layer) {
      if (!HasSlot(config, name.slot, layer)) continue;
      const bool is_key = name.slot == WeightSlot::kKeyUp;
      const std::string head = FullName(name, prefix, {name.slot, layer, -1});
      for (int32_t i = 0; i < config.attention.num_heads; ++i) {
        slices.push_back({.stored = absl::StrCat(head.substr(0, head.find(kIndex)), name.weight),
                          .name = absl::StrCat(FullName(name, prefix, {name.slot, layer, i}), name.weight),
                          .stored_rows = rows * config.attention.num_heads,
                          .first = rows * i + (is_key ? 0 : latent.plain_dim),
                          .count = is_key ? latent.plain_dim : latent.value_dim});
      }
    }
  }
  return slices;
}

std::vector<std::string> ListRearranged(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix) {
  std::vector<std::string> tensors;
  for (const TensorSlice& slice : ListHeadSlices(names, config, prefix)) {
    if (tensors.empty() || tensors.back() != slice.stored) tensors.push_back(slice.stored);
  }
  for (const WeightName& name : names.weights) {
    const bool rotates = name.slot == WeightSlot::kLatentQuery || name.slot == WeightSlot::kKvDown;
    for (int32_t layer = 0; rotates && config.rotary.interleaved && layer < config.all_layers(); ++layer) {
      const std::string full = absl::StrCat(FullName(name, prefix, {name.slot, layer}), name.weight);
      tensors.push_back(full);
      for (const NameAlias& alias : names.aliases) {
        tensors.push_back(absl::StrReplaceAll(full, {{alias.name, alias.alias}}));
      }
    }
  }
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

void ApplyOldNormNames(const TensorSource& source, std::vector<WeightPart>* parts) {
  for (WeightPart& part : *parts) {
    if (!IsNorm(part.slot) || source.Find(part.tensor) != nullptr) continue;
    const std::string stem = part.tensor.substr(0, part.tensor.rfind('.'));
    const std::string old_name = absl::StrCat(stem, part.is_bias ? ".beta" : ".gamma");
    if (source.Find(old_name) != nullptr) part.tensor = old_name;
  }
}

void ApplyAliases(const CheckpointNames& names, const TensorSource& source, std::vector<WeightPart>* parts) {
  for (WeightPart& part : *parts) {
    if (source.Find(part.tensor) != nullptr) continue;
    for (const NameAlias& name : names.aliases) {
      const size_t at = part.tensor.find(name.name);
      if (at == std::string::npos) continue;
      std::string alias = part.tensor;
      alias.replace(at, std::string_view(name.name).size(), name.alias);
      if (source.Find(alias) != nullptr) part.tensor = std::move(alias);
    }
  }
}

absl::Status CheckParts(const std::vector<WeightPart>& parts, const TensorSource& source) {
  std::vector<std::string> missing;
  for (const WeightPart& part : parts) {
    const TensorInfo* tensor = source.Find(part.tensor);
    if (tensor == nullptr) {
      if (missing.empty() || missing.back() != part.tensor) missing.push_back(part.tensor);
      continue;
    }
    if (!HasShape(*tensor, part)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' has shape ", ShapeText(tensor->shape),
                                                     "; config.json makes it ", ShapeText(part.shape)));
    }
    if (!tensor->dtype->loadable.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' has dtype ", tensor->dtype->name,
                                                     "; weights are loaded from ", tensor->dtype->loaded_types));
    }
    if (*tensor->dtype->loadable == kernels::DType::kF8E4M3 && part.scales.weight == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", part.tensor, "' has dtype F8_E4M3; norms and biases are loaded from F32, F16 and BF16"));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  const size_t num_missing = missing.size();
  missing.resize(std::min(num_missing, kMaxNamedMissing));
  return absl::NotFoundError(absl::StrCat("the checkpoint lacks ", num_missing, " tensor(s): ",
                                          absl::StrJoin(missing, ", "), num_missing > missing.size() ? ", ..." : ""));
}

void FindCodes(const TensorSource& source, std::vector<WeightPart>* parts) {
  for (WeightPart& part : *parts) {
    if (part.is_vector() || part.transposed || part.scaled_rows > 0) continue;
    part.codes = source.CodesOf(*source.Find(part.tensor));
  }
}

std::vector<std::string> DequantizedWarnings(const TensorSource& source, const std::vector<WeightPart>& parts,
                                             bool own_precision) {
  std::map<std::string, std::set<std::string_view>> tensors;  // by reason
  for (const WeightPart& part : parts) {
    if (part.is_vector()) continue;
    const bool fp8 = own_precision && part.scales.weight != nullptr;
    const std::string reason =
        fp8 ? "beside 4- and 8-bit codes FP8 is rounded to BF16" : source.WhyNoCodes(*source.Find(part.tensor));
    if (!reason.empty()) tensors[reason].insert(part.tensor);
  }
  std::vector<std::string> warnings;
  warnings.reserve(tensors.size());
  for (const auto& [reason, names] : tensors) {
    warnings.push_back(absl::StrCat(names.size(), " quantised matrix(es) are dequantised: ", reason, " (",
                                    std::string(*names.begin()), names.size() > 1 ? ", ...)" : ")"));
  }
  return warnings;
}

int64_t CountParameters(const std::vector<WeightPart>& parts) {
  int64_t count = 0;
  for (const WeightPart& part : parts) count += Elements(part);
  return count;
}

int64_t CountActiveParameters(const ModelConfig& config, const std::vector<WeightPart>& parts) {
  int64_t count = 0;
  for (const WeightPart& part : parts) {
    if (part.slot == WeightSlot::kLayerTable) continue;
    if (!IsPerExpert(part.slot) || part.index < config.experts.routing.num_chosen) count += Elements(part);
  }
  return count;
}

}  // namespace dunlin::engine
