// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/llama_family.h"

#include "engine/model/architectures/config_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {

void ParseLlamaFamily(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config) {
  SetSizes(fields, defaults.max_context, config, defaults.ffn_dim, "max_position_embeddings", defaults.vocab_size);
  const bool no_heads = defaults.num_heads > 0 && !fields.Has("num_attention_heads");
  const int64_t num_heads = no_heads ? defaults.num_heads : fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t default_kv = defaults.num_kv_heads > 0 ? defaults.num_kv_heads : num_heads;
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, default_kv);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, defaults.head_dim), config);
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, defaults.norm_epsilon));
  if (defaults.activation_field != nullptr) {
    config->mlp.activation = ParseActivation(fields, defaults.activation_field, defaults.activation);
  }
  config->mlp.gated = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", defaults.tied_embeddings);
  SetRotary(fields, defaults.rotary, config);
}

}  // namespace dunlin::engine
