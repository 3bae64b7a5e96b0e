// SPDX-License-Identifier: Apache-2.0
// Phi 3, 3.5, 4 and 4 mini: Llama with Q, K and V in one matrix and gate and up in another, partially rotated heads and
// longrope. Source: transformers 5.23, models/phi3.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kPhi3Defaults = {.max_context = 4096, .norm_epsilon = 1e-5, .rotary = {.partial = true}};

void ParsePhi3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kPhi3Defaults, config);
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kPhi3Weights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, kAll, "layers.#.self_attn.qkv_proj"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kAll, "layers.#.mlp.gate_up_proj"},
    {kMlpDown, kAll, "layers.#.mlp.down_proj"},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kPhi3Types[] = {"phi3"};

constexpr GgufForm kPhi3Gguf[] = {{.name = "phi3",
                                   .weights = gguf_names::kPlainFused,
                                   .write_fields = &WriteGgufWindow,
                                   .partial_rotary_field = "partial_rotary_factor"}};

}  // namespace

extern const Architecture kPhi3 = {.name = "phi3",
                                   .model_types = kPhi3Types,
                                   .parse_config = &ParsePhi3,
                                   .names = {kLlamaPrefixes, kPhi3Weights, kLlamaBuffers},
                                   .gguf = kPhi3Gguf};

}  // namespace dunlin::engine
