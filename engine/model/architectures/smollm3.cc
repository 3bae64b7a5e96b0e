// SPDX-License-Identifier: Apache-2.0
// SmolLM 3: Llama with layers without positions, every fourth by default. Source: transformers 5.23, models/smollm3.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kSmollm3Defaults = {
    .max_context = 32768, .tied_embeddings = true, .rotary = {.default_theta = 2e6}};
constexpr int64_t kDefaultInterval = 4;

// no_rope_layers has 1 for a layer with positions.
void SetLayersWithoutPositions(JsonFields& fields, ModelConfig* config) {
  const std::vector<int64_t> rotated = fields.IntListOr("no_rope_layers", 0, 1, kMaxLayers);
  const int64_t interval = fields.IntOr("no_rope_layer_interval", 1, kMaxLayers, kDefaultInterval);
  if (!fields.status().ok()) return;
  if (!rotated.empty() && rotated.size() != static_cast<size_t>(config->num_layers)) {
    return fields.Fail(
        absl::StrCat("no_rope_layers has ", rotated.size(), " entries; num_hidden_layers is ", config->num_layers));
  }
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool rotates = rotated.empty() ? (layer + 1) % interval != 0 : rotated[static_cast<size_t>(layer)] == 1;
    config->rotary.layer_index.push_back(rotates ? 0 : -1);
  }
}

void ParseSmollm3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kSmollm3Defaults, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  SetLayersWithoutPositions(fields, config);
  const bool slides = fields.BoolOr("use_sliding_window", false);
  // Without layer_types the layers without positions would slide; every published config has them.
  if (slides && !fields.Has("layer_types")) fields.Fail("use_sliding_window is true, and layer_types is missing");
  const int64_t window = slides ? fields.IntOr("sliding_window", 1, kMaxContextTokens, 0) : 0;
  if (slides) SetWindows(fields, window, {.first = kMaxLayers}, config);
}

constexpr const char* kSmollm3Types[] = {"smollm3"};

constexpr GgufForm kSmollm3Gguf[] = {{.name = "smollm3", .interleaved_rotation = true}};

}  // namespace

extern const Architecture kSmollm3 = {.name = "smollm3",
                                      .model_types = kSmollm3Types,
                                      .parse_config = &ParseSmollm3,
                                      .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                      .gguf = kSmollm3Gguf};

}  // namespace dunlin::engine
