// SPDX-License-Identifier: Apache-2.0
// StableLM 2: Llama with LayerNorm, partially rotated heads and, in some models, a parallel residual.
// Source: transformers 5.23, models/stablelm.
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kStablelmDefaults = {.max_context = 4096,
                                             .rotary = {.default_partial_factor = 0.25, .partial = true}};

void ParseStablelm(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"qk_layernorm"});
  ParseLlamaFamily(fields, kStablelmDefaults, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->attention.qkv_bias = fields.BoolOr("use_qkv_bias", false);
  config->parallel_residual = config->norm.shared = fields.BoolOr("use_parallel_residual", false);
}

constexpr const char* kStablelmTypes[] = {"stablelm"};

// Whether the terms are parallel shows in the tensors: the key is true in files of models where they are not.
void WriteGgufStablelm(GgufConfigWriter* config) {
  RefuseGgufTensor(config, "blk.0.attn_q_norm.weight", "a norm for each head of Q and K");
  (*config)["use_parallel_residual"] = !config->HasTensor("blk.0.ffn_norm.weight");
}

constexpr GgufForm kStablelmGguf[] = {{.name = "stablelm",
                                       .fields = kGgufNormFields,
                                       .write_fields = &WriteGgufStablelm,
                                       .partial_rotary_field = "partial_rotary_factor"}};

}  // namespace

extern const Architecture kStablelm = {.name = "stablelm",
                                       .model_types = kStablelmTypes,
                                       .parse_config = &ParseStablelm,
                                       .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                       .gguf = kStablelmGguf};

}  // namespace dunlin::engine
