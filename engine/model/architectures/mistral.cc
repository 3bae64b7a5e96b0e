// SPDX-License-Identifier: Apache-2.0
// Mistral: Llama with one sliding window for all layers, or none where sliding_window is null (later releases), and the
// text part of Mistral Small 3.1 and 3.2. Source: transformers 5.23, models/mistral, models/mistral3.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseMistral(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 131072}, config);
  if (fields.Has("layer_types")) fields.Fail("layer_types is set; all layers of model_type 'mistral' have one window");
  SetWindows(fields, ParseWindow(fields), {}, config);
}

constexpr const char* kMistralTypes[] = {"mistral"};
constexpr const char* kMistralMultimodalTypes[] = {"mistral3"};

}  // namespace

extern const Architecture kMistral = {.name = "mistral",
                                      .model_types = kMistralTypes,
                                      .parse_config = &ParseMistral,
                                      .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers, kTextPartAliases},
                                      .multimodal_types = kMistralMultimodalTypes};

}  // namespace dunlin::engine
