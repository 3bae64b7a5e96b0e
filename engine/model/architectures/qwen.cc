// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5: Llama with biases on Q, K and V. Qwen 3: Llama with a norm over each head of Q and K.
// Qwen 2 VL, 2.5 VL and 3 VL and InternVL have them as their text models, and MiMo 7B is Qwen 2 with layers that
// predict further tokens. Source: transformers 5.24, models/qwen2, models/qwen3, models/qwen2_vl, models/qwen2_5_vl,
// models/qwen3_vl, models/internvl; vLLM, models mimo and mimo_mtp.
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
  ParseLlamaFamily(fields, {.max_context = kQwenDefaultContext, .rotary = {.sections = SectionOrder::kContiguous}},
                   config);
  ParseQwenWindows(fields, config);
  config->attention.qkv_bias = true;
}

void ParseQwen3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(
      fields, {.max_context = kQwenDefaultContext, .head_dim = 128, .rotary = {.sections = SectionOrder::kInterleaved}},
      config);
  ParseQwenWindows(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
}

constexpr auto kQwen3Weights = WithNorms(kLlamaQkNorms);
constexpr const char* kQwen2ModelTypes[] = {"qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "mimo"};
constexpr const char* kQwen3ModelTypes[] = {"qwen3", "qwen3_vl_text"};
constexpr const char* kQwen2Outer[] = {"qwen2_vl", "qwen2_5_vl", "internvl"};
constexpr const char* kQwen3Outer[] = {"qwen3_vl", "internvl"};

constexpr GgufForm kQwen2Gguf[] = {{.name = "qwen2"}, {.name = "qwen2vl", .image_sections = true}};
constexpr GgufForm kQwen3Gguf[] = {{.name = "qwen3"}, {.name = "qwen3vl", .image_sections = true}};

}  // namespace

extern const Architecture kQwen2 = {.name = "qwen2",
                                    .model_types = kQwen2ModelTypes,
                                    .parse_config = &ParseQwen2,
                                    .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers, kTextPartAliases},
                                    .gguf = kQwen2Gguf,
                                    .multimodal_types = kQwen2Outer,
                                    .flat_text = true};
extern const Architecture kQwen3 = {.name = "qwen3",
                                    .model_types = kQwen3ModelTypes,
                                    .parse_config = &ParseQwen3,
                                    .names = {kLlamaPrefixes, kQwen3Weights, kLlamaBuffers, kTextPartAliases},
                                    .gguf = kQwen3Gguf,
                                    .multimodal_types = kQwen3Outer};

}  // namespace dunlin::engine
