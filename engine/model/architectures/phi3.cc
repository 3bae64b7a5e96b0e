// SPDX-License-Identifier: Apache-2.0
// Phi 3, 3.5, 4 and 4 mini: Llama with Q, K and V in one matrix and gate and up in another, partially rotated heads and
// longrope. Source: transformers 5.23, models/phi3.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kDefaults = {.max_context = 4096, .norm_epsilon = 1e-5, .rotary = {.partial = true}};

void ParsePhi3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kDefaults, config);
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kWeights[] = {
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
constexpr const char* kModelTypes[] = {"phi3"};

}  // namespace

const Architecture kPhi3 = {"phi3", kModelTypes, &ParsePhi3, kLlamaPrefixes, kWeights, kLlamaBuffers};

}  // namespace dunlin::engine
