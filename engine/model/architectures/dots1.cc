// SPDX-License-Identifier: Apache-2.0
// dots.llm1: Llama with a norm over each head of Q and K, sliding windows by layer, and experts chosen by DeepSeek V3's
// rule, shared ones besides, in all but the first layers. Source: transformers 5.23, models/dots1.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

// The layers from max_window_layers on have a sliding window.
void ParseDots1(JsonFields& fields, ModelConfig* config) {
  // Without defaults in transformers.
  const char* count = fields.Has("num_local_experts") ? "num_local_experts" : "n_routed_experts";
  for (const char* name : {count, "num_experts_per_tok", "n_shared_experts"}) fields.Int(name, 1, kMaxExperts);
  ParseLlamaFamily(fields, {.max_context = 2048}, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
  SetWindows(fields, ParseWindow(fields), {.first = fields.IntOr("max_window_layers", 0, kMaxLayers, 62)}, config);
  ParseExperts(fields, {.num_experts = 1, .num_chosen = 1, .width = "moe_intermediate_size", .default_width = 1408},
               config);
  ParseGroupedRouting(fields, {.normalized = false}, config);
  ParseSharedExperts(fields, "n_shared_experts", 1, config);
  ParseDenseLayers(fields, 0, config);
}

constexpr auto kDots1Weights = WithNorms(kLlamaQkNorms, kLlamaExperts, kDeepseekExperts);
constexpr const char* kDots1Types[] = {"dots1"};

// Published models have no windows, and files do not say.
void WriteGgufDots1(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  WriteGgufRouting(config, 1, 1);
  (*config)["sliding_window"] = nullptr;
}

constexpr GgufForm kDots1Gguf[] = {{.name = "dots1", .write_fields = &WriteGgufDots1, .experts = true}};

}  // namespace

extern const Architecture kDots1 = {.name = "dots1",
                                    .model_types = kDots1Types,
                                    .parse_config = &ParseDots1,
                                    .names = {kLlamaPrefixes, kDots1Weights, kLlamaBuffers},
                                    .gguf = kDots1Gguf};

}  // namespace dunlin::engine
