// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5: Llama with biases on Q, K and V. Qwen 3: Llama with a norm over each head of Q and K.
// Source: transformers 5.23, models/qwen2, models/qwen3.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kQwenDefaultContext = 32768;

// With use_sliding_window, the layers from max_window_layers on have a sliding window.
void ParseQwenWindows(JsonFields& fields, ModelConfig* config) {
  const bool slides = fields.BoolOr("use_sliding_window", false);
  const int64_t first = fields.IntOr("max_window_layers", 0, kMaxLayers, 28);
  SetWindows(fields, slides ? ParseWindow(fields) : 0, {.first = first}, config);
}

void ParseQwen2(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = kQwenDefaultContext}, config);
  ParseQwenWindows(fields, config);
  config->attention.qkv_bias = true;
}

void ParseQwen3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = kQwenDefaultContext, .head_dim = 128}, config);
  ParseQwenWindows(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
}

constexpr auto kQwen3Weights = WithNorms(kLlamaQkNorms);
constexpr const char* kQwen2ModelTypes[] = {"qwen2"};
constexpr const char* kQwen3ModelTypes[] = {"qwen3"};

constexpr GgufForm kQwen2Gguf[] = {{.name = "qwen2"}};
constexpr GgufForm kQwen3Gguf[] = {{.name = "qwen3"}};

}  // namespace

extern const Architecture kQwen2 = {.name = "qwen2",
                                    .model_types = kQwen2ModelTypes,
                                    .parse_config = &ParseQwen2,
                                    .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                    .gguf = kQwen2Gguf};
extern const Architecture kQwen3 = {.name = "qwen3",
                                    .model_types = kQwen3ModelTypes,
                                    .parse_config = &ParseQwen3,
                                    .names = {kLlamaPrefixes, kQwen3Weights, kLlamaBuffers},
                                    .gguf = kQwen3Gguf};

}  // namespace dunlin::engine
