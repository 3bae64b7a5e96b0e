// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/adaptable_modules.h"

#include <algorithm>
#include <iterator>
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
    case WeightSlot::kQueryDown:
      return Projection::kQueryDown;
    case WeightSlot::kLatentQuery:
      return Projection::kLatentQuery;
    case WeightSlot::kKvDown:
      return Projection::kKvDown;
    case WeightSlot::kRouter:
      return Projection::kRouter;
    case WeightSlot::kLatentIn:
      return Projection::kLatentIn;
    case WeightSlot::kLatentOut:
      return Projection::kLatentOut;
    case WeightSlot::kExpertUp:
      return Projection::kExpertUp;
    case WeightSlot::kExpertDown:
      return Projection::kExpertDown;
    case WeightSlot::kSharedUp:
      return Projection::kSharedUp;
    case WeightSlot::kSharedDown:
      return Projection::kSharedDown;
    case WeightSlot::kHead:
      return Projection::kHead;
    default:
      return std::nullopt;
  }
}

bool IsOfLatentAttention(Projection projection) {
  return projection == Projection::kQueryDown || projection == Projection::kLatentQuery ||
         projection == Projection::kKvDown;
}

// GGUF files have the rows of recurrent mixers, of gates and of latent attention in other orders than their modules.
bool HasPlainRowsInGguf(Projection projection) {
  switch (projection) {
    case Projection::kAttentionGate:
    case Projection::kMixerIn:
    case Projection::kMixerGates:
    case Projection::kMixerOut:
      return false;
    default:
      return !IsOfLatentAttention(projection);
  }
}

// "layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string ModuleName(std::string_view tensor, std::string_view prefix) {
  if (tensor.starts_with(prefix)) tensor.remove_prefix(prefix.size());
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  return std::string(tensor);
}

// As RotaryRows reads them: a head of a latent query, and the latent row, have their rotated rows at the end.
void SetLatentRotation(const ModelConfig& config, AdaptableModule* module) {
  const LatentAttentionSpec& latent = config.attention.latent;
  const bool query = module->projection == Projection::kLatentQuery;
  if (!config.rotary.interleaved || (!query && module->projection != Projection::kKvDown)) return;
  module->rotary_begin = query ? latent.plain_dim : latent.kv_rank;
  module->rotary_dim = config.rotary.dim;
  module->head_rows = module->rotary_begin + latent.rope_dim;
  module->rotated_rows = module->out_features;
}

// As the tensors are read: RotaryRows of a directory, GgufTensors::SeparateRotationHalves of a GGUF file.
void SetRotation(const ParsedModel& parsed, AdaptableModule* module) {
  const ModelConfig& config = parsed.config;
  SetLatentRotation(config, module);
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
  if (IsOfExperts(projection)) module.expert = first.index;
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
           (parsed.config.attention.is_latent() || !IsOfLatentAttention(*projection)) &&
           std::all_of(row.second.begin(), row.second.end(), [&](const WeightPart* part) {
             return part->layer == layer && !IsOfValues(parsed.config, *part);
           });
  });
}

// "layers.0.mlp.experts" of "layers.0.mlp.experts.0.up_proj" and of "layers.0.mlp.input_linear.0". Of a GGUF file the
// stack itself, "blk.0.ffn_up_exps" of "blk.0.ffn_up_exps.0".
std::string StackName(const AdaptableModule& of_first, bool gguf, const char* parameter) {
  const std::string& name = of_first.name;
  const bool ends = name.ends_with(".0");
  std::string stack = name.substr(0, ends ? name.size() - 2 : name.rfind(".0."));
  if (gguf) return stack;
  if (!ends) return stack + "." + parameter;
  return stack.substr(0, stack.rfind('.')) + ".experts." + parameter;
}

// The module of all experts of a layer, whose projection has the rows of the checkpoint's, of its first expert's.
AdaptableModule StackOf(const ParsedModel& parsed, const AdaptableModule& of_first) {
  const bool up = of_first.projection == Projection::kExpertUp;
  const ExpertLayout layout = parsed.names.expert_layout;
  AdaptableModule stack;
  stack.name = StackName(of_first, parsed.gguf,
                         !up                       ? "down_proj"
                         : parsed.config.mlp.gated ? "gate_up_proj"
                                                   : "up_proj");
  stack.projection = of_first.projection;
  stack.slot = of_first.slot;
  stack.layer = of_first.layer;
  stack.num_experts = parsed.config.experts.routing.num_experts;
  stack.in_features = of_first.in_features;
  stack.out_features = of_first.out_features;
  stack.rows = of_first.rows;
  if (layout == ExpertLayout::kInterleaved && up) stack.stack_rows = StackRows::kAlternating;
  if (layout == ExpertLayout::kColumns) stack.stack_rows = StackRows::kTransposed;
  if (!up || parsed.gguf) return stack;
  stack.out_features = int64_t{parsed.config.mlp.gated ? 2 : 1} * parsed.config.experts.ffn_dim;
  stack.rows = {{0, stack.out_features, 0, 0, 1.0F}};
  return stack;
}

// A directory has gate and up projections in one parameter, a GGUF file as its checkpoint has them. Where a checkpoint
// stacks experts otherwise than row by row, no module is one expert's.
void AddStacks(const ParsedModel& parsed, AdaptableModules* adaptable) {
  std::vector<AdaptableModule> stacks;
  for (const AdaptableModule& module : adaptable->modules) {
    if (module.expert != 0) continue;
    AdaptableModule stack = StackOf(parsed, module);
    const bool known = std::any_of(stacks.begin(), stacks.end(), [&](const auto& o) { return o.name == stack.name; });
    if (!known) stacks.push_back(std::move(stack));
  }
  if (parsed.names.expert_layout != ExpertLayout::kRows) {
    std::erase_if(adaptable->modules, [](const AdaptableModule& module) { return module.expert >= 0; });
  }
  std::move(stacks.begin(), stacks.end(), std::back_inserter(adaptable->modules));
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
    const bool predicts = part.layer >= parsed.config.num_layers;  // guesses have no adapters
    if (!part.is_vector() && !predicts) tensors[part.tensor][part.slot].push_back(&part);
  }
  for (const auto& [tensor, by_slot] : tensors) {
    if (!IsAdaptable(parsed, by_slot)) continue;
    for (const auto& [slot, of_slot] : by_slot) {
      adaptable.modules.push_back(ModuleOf(parsed, prefix, of_slot, *ProjectionOf(slot)));
    }
  }
  AddStacks(parsed, &adaptable);
  return adaptable;
}

}  // namespace dunlin::engine
