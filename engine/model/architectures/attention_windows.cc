// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/attention_windows.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

// Source: transformers 5.23, configuration_utils.py.
bool SlidesByType(JsonFields& fields, const std::vector<std::string>& types, size_t layer, int64_t window) {
  const std::string& type = types[layer];
  if (type == "full_attention") return false;
  const std::string named = absl::StrCat("layer_types[", layer, "] is '", type.substr(0, 32), "'");
  if (type != "sliding_attention") fields.Fail(absl::StrCat(named, "; known: full_attention, sliding_attention"));
  if (window == 0) fields.Fail(absl::StrCat(named, ", but no sliding_window is in use"));
  return true;
}

}  // namespace

int64_t ParseWindow(JsonFields& fields) {
  return fields.IntOr("sliding_window", 1, kMaxContextTokens, fields.Mentions("sliding_window") ? 0 : 4096);
}

std::vector<bool> SetWindows(JsonFields& fields, int64_t window, const SlidingLayers& sliding, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  if (!fields.status().ok()) return {};
  const auto num_layers = static_cast<size_t>(config->num_layers);
  if (!types.empty() && types.size() != num_layers) {
    fields.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", num_layers));
    return {};
  }
  const int64_t one_side = config->attention.causal ? window : window / 2 + 1;
  const auto reach = static_cast<int32_t>(one_side < config->max_context ? window : 0);
  std::vector<int32_t> windows;
  std::vector<bool> sliding_layers;
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const int64_t index = static_cast<int64_t>(layer) - sliding.first;
    const int64_t in_group = sliding.from_last ? static_cast<int64_t>(num_layers - 1 - layer)
                                               : static_cast<int64_t>(layer) + (sliding.full_first ? 0 : 1);
    const bool by_default =
        sliding.full_every > 0 ? in_group % sliding.full_every != 0 : index >= 0 && index % sliding.step == 0;
    const bool slides = types.empty() ? by_default : SlidesByType(fields, types, layer, window);
    windows.push_back(slides ? reach : 0);
    sliding_layers.push_back(slides);
  }
  const bool any = std::any_of(windows.begin(), windows.end(), [](int32_t tokens) { return tokens > 0; });
  if (any) config->attention.layer_windows = std::move(windows);
  return sliding_layers;
}

}  // namespace dunlin::engine
