// SPDX-License-Identifier: Apache-2.0
// Command R (Cohere) and R7B (Cohere 2): one LayerNorm without bias for attention and MLP, which are added in parallel,
// interleaved rotation, scaled logits. In Cohere 2 sliding layers rotate, and full ones have no positions.
// Source: transformers 5.23, models/cohere, models/cohere2.
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kCohereDefaultPattern = 4;

void ParseCohereBoth(JsonFields& fields, double theta, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 8192, .tied_embeddings = true, .rotary = {.default_theta = theta}}, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->parallel_residual = config->norm.shared = true;
  config->rotary.interleaved = true;
  config->head.scale = static_cast<float>(fields.NumberOr("logit_scale", 1e-6, 1e6, 0.0625));
}

void ParseCohere(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"use_qk_norm"});
  ParseCohereBoth(fields, 500000.0, config);
}

void ParseCohere2(JsonFields& fields, ModelConfig* config) {
  ParseCohereBoth(fields, 10000.0, config);
  const int64_t pattern = fields.IntOr("sliding_window_pattern", 1, kMaxLayers, kCohereDefaultPattern);
  const int64_t window = ParseWindow(fields);
  const std::vector<bool> sliding = SetWindows(fields, window, {.full_every = pattern}, config);
  for (const bool slides : sliding) config->rotary.layer_index.push_back(slides ? 0 : -1);
}

constexpr const char* kCohereTypes[] = {"cohere"};
constexpr const char* kCohere2Types[] = {"cohere2"};

void WriteGgufCohere(GgufConfigWriter* config) {
  RefuseGgufTensor(config, "blk.0.attn_q_norm.weight", "a norm for each head of Q and K");
  (*config)["logit_scale"] = 1.0;
  config->Copy("logit_scale", "logit_scale");
}

constexpr GgufForm kCohereGguf[] = {
    {.name = "command-r", .fields = kGgufNormFields, .write_fields = &WriteGgufCohere, .interleaved_rotation = true}};

void WriteGgufCohere2(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  WriteGgufCohere(config);
  RequireGgufWindow(config);
  config->WriteWindows("sliding_window", kPeriod);
}

constexpr GgufForm kCohere2Gguf[] = {
    {.name = "cohere2", .fields = kGgufNormFields, .write_fields = &WriteGgufCohere2, .interleaved_rotation = true}};

}  // namespace

extern const Architecture kCohere = {.name = "cohere",
                                     .model_types = kCohereTypes,
                                     .parse_config = &ParseCohere,
                                     .names = {kLlamaPrefixes, kLlamaCommonWeights, kLlamaBuffers},
                                     .gguf = kCohereGguf};
extern const Architecture kCohere2 = {.name = "cohere2",
                                      .model_types = kCohere2Types,
                                      .parse_config = &ParseCohere2,
                                      .names = {kLlamaPrefixes, kLlamaCommonWeights, kLlamaBuffers},
                                      .gguf = kCohere2Gguf};

}  // namespace dunlin::engine
