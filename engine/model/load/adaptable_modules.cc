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
    case WeightSlot::kAttentionOut:
      return Projection::kAttentionOut;
    case WeightSlot::kMlpUp:
      return Projection::kMlpUp;
    case WeightSlot::kMlpDown:
      return Projection::kMlpDown;
    default:
      return std::nullopt;
  }
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

}  // namespace

AdaptableModules ListAdaptable(const ParsedModel& parsed, const std::string& prefix,
                               const std::vector<WeightPart>& parts) {
  AdaptableModules adaptable;
  adaptable.gguf = parsed.gguf;
  if (parsed.config.is_encoder()) return adaptable;
  adaptable.prefixes.emplace_back(prefix);
  for (const char* other : parsed.names.prefixes) adaptable.prefixes.emplace_back(other);
  std::map<std::string_view, std::vector<const WeightPart*>> tensors;
  for (const WeightPart& part : parts) {
    if (!part.is_vector()) tensors[part.tensor].push_back(&part);
  }
  for (const auto& [tensor, of_tensor] : tensors) {
    const std::optional<Projection> projection = ProjectionOf(of_tensor.front()->slot);
    const bool whole =
        std::all_of(of_tensor.begin(), of_tensor.end(), [first = of_tensor.front()](const WeightPart* part) {
          return part->slot == first->slot && part->layer == first->layer;
        });
    if (projection.has_value() && whole) {
      adaptable.modules.push_back(ModuleOf(parsed, prefix, of_tensor, *projection));
    }
  }
  return adaptable;
}

}  // namespace dunlin::engine
