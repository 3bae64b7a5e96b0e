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
  config->qkv_bias = true;
}

void ParseQwen3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = kQwenDefaultContext, .head_dim = 128}, config);
  ParseQwenWindows(fields, config);
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->qk_norm = true;
}

constexpr auto kQwen3Weights = WithNorms(kLlamaQkNorms);
constexpr const char* kQwen2ModelTypes[] = {"qwen2"};
constexpr const char* kQwen3ModelTypes[] = {"qwen3"};

}  // namespace

const Architecture kQwen2 = {"qwen2", kQwen2ModelTypes, &ParseQwen2, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};
const Architecture kQwen3 = {"qwen3", kQwen3ModelTypes, &ParseQwen3, kLlamaPrefixes, kQwen3Weights, kLlamaBuffers};

}  // namespace dunlin::engine
