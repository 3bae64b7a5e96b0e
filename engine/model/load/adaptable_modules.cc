// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/adaptable_modules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace dunlin::engine {
namespace {

constexpr std::string_view kWeight = ".weight";

std::optional<Projection> ProjectionOf(WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kQkv:
      return Projection::kQkv;
    case WeightSlot::kAttentionGate:
      return Projection::kAttentionGate;
    case WeightSlot::kAttentionOut:
      return Projection::kAttentionOut;
    case WeightSlot::kMlpUp:
      return Projection::kMlpUp;
    case WeightSlot::kMlpDown:
      return Projection::kMlpDown;
    case WeightSlot::kDeltaIn:
    case WeightSlot::kShortConvIn:
    case WeightSlot::kMambaIn:
      return Projection::kMixerIn;
    case WeightSlot::kDeltaGates:
      return Projection::kMixerGates;
    case WeightSlot::kDeltaOut:
    case WeightSlot::kShortConvOut:
    case WeightSlot::kMambaOut:
      return Projection::kMixerOut;
    default:
      return std::nullopt;
  }
}

// GGUF files have the rows of recurrent mixers and of gates in other orders than their modules.
bool HasPlainRowsInGguf(Projection projection) {
  return projection != Projection::kAttentionGate && projection != Projection::kMixerIn &&
         projection != Projection::kMixerGates && projection != Projection::kMixerOut;
}

// "layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string ModuleName(std::string_view tensor, std::string_view prefix) {
  if (tensor.starts_with(prefix)) tensor.remove_prefix(prefix.size());
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  return std::string(tensor);
}

// As the tensors are read: RotaryRows of a directory, GgufTensors::SeparateRotationHalves of a GGUF file.
void SetRotation(const ParsedModel& parsed, AdaptableModule* module) {
  const ModelConfig& config = parsed.config;
  if (module->projection != Projection::kQkv || !(config.rotary.interleaved || parsed.separates_rotation)) return;
  const int64_t rotated =
      (int64_t{config.attention.num_heads} + config.attention.num_kv_heads) * config.attention.head_dim;
  if (module->rows.front().row_begin >= rotated) return;  // of V
  const bool fused = module->rows.back().row_begin + module->rows.back().num_rows > rotated;
  module->head_rows = config.attention.head_dim;
  module->rotary_dim = config.rotary.dim;
  module->rotated_rows = parsed.separates_rotation && fused ? rotated : module->out_features;
}

AdaptableModule ModuleOf(const ParsedModel& parsed, const std::string& prefix,
                         const std::vector<const WeightPart*>& parts, Projection projection) {
  const WeightPart& first = *parts.front();
  AdaptableModule module;
  module.name = ModuleName(first.tensor, prefix);
  module.projection = projection;
  module.slot = first.slot;
  module.layer = first.layer;
  module.in_features = first.shape[first.transposed ? 0 : 1];
  module.out_features = first.shape[first.transposed ? 1 : 0];
  for (const WeightPart* part : parts) {
    module.rows.push_back({part->row_begin, part->num_rows, part->source_row, part->scaled_rows, part->scale});
  }
  std::sort(module.rows.begin(), module.rows.end(),
            [](const ModuleRows& a, const ModuleRows& b) { return a.row_begin < b.row_begin; });
  SetRotation(parsed, &module);
  return module;
}

using PartsBySlot = std::map<WeightSlot, std::vector<const WeightPart*>>;

// Whether all rows of a tensor lie in projections of one layer, at places that a module's rows are known by, which
// those with zeros behind heads of V are not.
bool IsAdaptable(const ParsedModel& parsed, const PartsBySlot& by_slot) {
  const int32_t layer = by_slot.begin()->second.front()->layer;
  const bool rotates = parsed.config.rotary.interleaved || parsed.separates_rotation;
  if (by_slot.size() > 1 && (rotates || parsed.gguf)) return false;
  return std::all_of(by_slot.begin(), by_slot.end(), [&](const auto& row) {
    const std::optional<Projection> projection = ProjectionOf(row.first);
    return projection.has_value() && (!parsed.gguf || HasPlainRowsInGguf(*projection)) &&
           std::all_of(row.second.begin(), row.second.end(), [&](const WeightPart* part) {
             return part->layer == layer && !IsOfValues(parsed.config, *part);
           });
  });
}

}  // namespace

AdaptableModules ListAdaptable(const ParsedModel& parsed, const std::string& prefix,
                               const std::vector<WeightPart>& parts) {
  AdaptableModules adaptable;
  adaptable.gguf = parsed.gguf;
  if (parsed.config.is_encoder()) return adaptable;
  adaptable.prefixes.emplace_back(prefix);
  for (const char* other : parsed.names.prefixes) adaptable.prefixes.emplace_back(other);
  std::map<std::string_view, PartsBySlot> tensors;
  for (const WeightPart& part : parts) {
    if (!part.is_vector()) tensors[part.tensor][part.slot].push_back(&part);
  }
  for (const auto& [tensor, by_slot] : tensors) {
    if (!IsAdaptable(parsed, by_slot)) continue;
    for (const auto& [slot, of_slot] : by_slot) {
      adaptable.modules.push_back(ModuleOf(parsed, prefix, of_slot, *ProjectionOf(slot)));
    }
  }
  return adaptable;
}

}  // namespace dunlin::engine
