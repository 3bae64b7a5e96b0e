// SPDX-License-Identifier: Apache-2.0
// MiniMax M2, M2.5, M2.7: Llama with one norm over all heads of Q and one over those of K, partly rotated heads, and
// experts in every layer, chosen by sigmoids with a correction. Modules that predict further tokens are not served.
// Source: transformers 5.23, models/minimax_m2.
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

// Published configs have rotary_dim, the dimensions of a head that rotate.
void ParseMinimaxM2(JsonFields& fields, ModelConfig* config) {
  const int64_t head_dim = fields.IntOr("head_dim", 1, kMaxHeadDim, 128);
  const int64_t rotary_dim = fields.IntOr("rotary_dim", 2, head_dim, head_dim);
  LlamaDefaults defaults = {.max_context = 196608, .head_dim = 128, .rotary = {.partial = true, .default_theta = 5e6}};
  // A quarter more keeps the product with head_dim from rounding below the integer.
  if (rotary_dim < head_dim)
    defaults.rotary.default_partial_factor = (static_cast<double>(rotary_dim) + 0.25) / static_cast<double>(head_dim);
  ParseLlamaFamily(fields, defaults, config);
  config->attention.qk_norm = config->attention.qk_norm_joint = true;
  fields.IntListOr("attn_type_list", 1, 1, kMaxLayers);  // 0 is the linear attention of MiniMax M1
  fields.IntOr("shared_intermediate_size", 0, 0, 0);     // of shared experts
  ParseExperts(fields, {.num_experts = 256, .num_chosen = 8}, config);
  ParseGroupedRouting(fields, {}, config);
}

constexpr auto kMinimaxM2Weights = WithNorms(kLlamaQkNorms, kMinimaxExperts);
constexpr const char* kMinimaxM2Types[] = {"minimax_m2"};

void WriteGgufMinimaxM2(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  (*config)["intermediate_size"] = config->ExpertWidth();
}

constexpr GgufForm kMinimaxM2Gguf[] = {{.name = "minimax-m2",
                                        .write_fields = &WriteGgufMinimaxM2,
                                        .partial_rotary_field = "partial_rotary_factor",
                                        .experts = true}};

}  // namespace

extern const Architecture kMinimaxM2 = {.name = "minimax_m2",
                                        .model_types = kMinimaxM2Types,
                                        .parse_config = &ParseMinimaxM2,
                                        .names = {kLlamaPrefixes, kMinimaxM2Weights, kLlamaBuffers},
                                        .gguf = kMinimaxM2Gguf};

}  // namespace dunlin::engine
