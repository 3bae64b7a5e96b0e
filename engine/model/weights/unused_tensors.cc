// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/unused_tensors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/weights/weight_scales.h"

namespace dunlin::engine {
namespace {

constexpr size_t kMaxNamedUnused = 8;
constexpr const char* kPredicting = "multi-token prediction";
constexpr const char* kShared = "keys and values of layers that read those of others";

// The first part of names, with or without "model." before it. Source: transformers 5.23, the modeling files of
// multimodal models, and its mapping of the names that checkpoints were published with.
struct SkippedPart {
  const char* name;
  const char* part;
  bool multimodal;  // only in the checkpoint of a multimodal model
};
constexpr SkippedPart kSkippedParts[] = {
    {"visual.", kVisionPart, true},
    {"vision_tower.", kVisionPart, true},
    {"vision_model.", kVisionPart, true},
    {"vision_adapter.", kVisionPart, true},
    {"vision_projection.", kVisionPart, true},
    {"vision_encoder.", kVisionPart, true},
    {"vit_large_projector.", kVisionPart, true},
    {"embed_vision.", kVisionPart, true},
    {"multi_modal_projector.", kVisionPart, true},
    {"mm_projector.", kVisionPart, true},
    {"patch_merge_mlp.", kVisionPart, true},
    {"patch_merger.", kVisionPart, true},
    {"audio_tower.", "audio", true},
    {"embed_audio.", "audio", true},
    {"mtp.", kPredicting, false},
    {"mtp_layers.", kPredicting, false},
};
constexpr std::string_view kModel = "model.";

std::string_view WithoutModel(std::string_view name) {
  return name.starts_with(kModel) ? name.substr(kModel.size()) : name;
}

bool IsOfVision(std::string_view name) {
  return std::any_of(std::begin(kSkippedParts), std::end(kSkippedParts), [name](const SkippedPart& row) {
    return std::string_view(row.part) == kVisionPart && WithoutModel(name).starts_with(row.name);
  });
}

// Of names of layers, what precedes their index: "model.layers.".
std::string LayerStem(const CheckpointNames& names, const std::string& prefix) {
  for (const WeightName& name : names.weights) {
    const std::string_view text = name.name;
    if (const size_t at = text.find('#'); at != std::string_view::npos) {
      return absl::StrCat(name.prefixed ? prefix : "", std::string(text.substr(0, at)));
    }
  }
  return "";
}

// The prefix and the part of a layer beyond the last; empty for other tensors.
std::string PrefixBeyond(const std::string& stem, int32_t num_layers, std::string_view name) {
  if (stem.empty() || !name.starts_with(stem)) return "";
  int32_t layer = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + stem.size(), end, layer);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '.' || layer < num_layers) return "";
  return absl::StrCat(stem, layer, ".");
}

// The prefix of a tensor that is skipped, and its part.
std::pair<std::string, std::string> SkippedPrefix(const ModelConfig& config, const std::string& stem,
                                                  std::string_view name) {
  for (const SkippedPart& row : kSkippedParts) {
    if (row.multimodal && !config.text_part) continue;
    const std::string_view rest = WithoutModel(name);
    if (rest.starts_with(row.name)) {
      return {absl::StrCat(rest.size() < name.size() ? "model." : "", row.name), row.part};
    }
  }
  return {PrefixBeyond(stem, config.num_layers, name), kPredicting};
}

std::set<std::string_view> UsedTensors(const std::vector<WeightPart>& parts) {
  std::set<std::string_view> used;
  for (const WeightPart& part : parts) {
    used.insert(part.tensor);
    for (const TensorInfo* scale : {part.scales.weight, part.scales.input}) {
      if (scale != nullptr) used.insert(scale->name);
    }
  }
  return used;
}

// The names that keys and values of layers with AttentionSpec::kv_sources would have. Published checkpoints have such
// tensors, which nothing reads. Source: transformers 5.24, models/gemma4 (_keys_to_ignore_on_load_unexpected).
std::set<std::string> SharedTensors(const CheckpointNames& names, const ModelConfig& config,
                                    const std::string& prefix) {
  std::set<std::string> shared;
  if (config.attention.kv_sources.empty()) return shared;
  ModelConfig apart = config;
  apart.attention.kv_sources.clear();
  for (WeightPart& part : ListWeightParts(names, apart, prefix)) shared.insert(std::move(part.tensor));
  return shared;
}

}  // namespace

UnusedTensors FindUnusedTensors(const CheckpointNames& names, const ModelConfig& config, const std::string& prefix,
                                const std::vector<WeightPart>& parts, const TensorSource& source) {
  const std::set<std::string_view> used = UsedTensors(parts);
  const std::set<std::string> shared = SharedTensors(names, config, prefix);
  const std::string stem = config.is_image_encoder() ? "" : LayerStem(names, prefix);
  std::map<std::pair<std::string, std::string>, int64_t> skipped;  // by part and prefix
  std::vector<std::string> unused;
  for (const TensorInfo* tensor : source.List()) {
    const auto is_buffer = [&](const char* ending) { return tensor->name.ends_with(ending); };
    if (used.contains(tensor->name) || IsKvScale(tensor->name)) continue;
    if (std::any_of(names.ignored.begin(), names.ignored.end(), is_buffer)) continue;
    if (config.is_image_encoder() && !IsOfVision(tensor->name)) continue;
    auto [of, part] = shared.contains(tensor->name) ? std::pair(stem, std::string(kShared))
                                                    : SkippedPrefix(config, stem, tensor->name);
    if (of.empty()) {
      unused.push_back(tensor->name);
    } else {
      ++skipped[{std::move(part), std::move(of)}];
    }
  }
  UnusedTensors found;
  for (const auto& [key, count] : skipped) {
    found.skipped.push_back({.prefix = key.second, .part = key.first, .count = count});
  }
  if (unused.empty()) return found;
  const size_t num_unused = unused.size();
  unused.resize(std::min(num_unused, kMaxNamedUnused));
  found.warnings = {absl::StrCat(num_unused, " tensor(s) of the checkpoint are not used: ", absl::StrJoin(unused, ", "),
                                 num_unused > unused.size() ? ", ..." : "")};
  return found;
}

}  // namespace dunlin::engine
