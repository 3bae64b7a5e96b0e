// SPDX-License-Identifier: Apache-2.0
// EXAONE 4: Llama with a norm over each head of Q and K, and norms behind the attention and the MLP instead of before
// them. Where some layers slide, the others have no positions. Source: transformers 5.23, models/exaone4.
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

void ParseExaone4(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048, .norm_epsilon = 1e-5}, config);
  config->attention.qk_norm = true;
  config->norm.placement = NormPlacement::kPostInside;
  const int64_t window = ParseWindow(fields);
  if (window == 0) return;
  // Published configs have the pattern as text ("LLLG"), and layer_types beside it.
  const bool typed = fields.Has("layer_types");
  const int64_t pattern = typed ? 1 : fields.IntOr("sliding_window_pattern", 1, 1 << 16, 4);
  const std::vector<bool> sliding = SetWindows(fields, window, {.full_every = pattern}, config);
  for (const bool slides : sliding) config->rotary.layer_index.push_back(slides ? 0 : -1);
}

constexpr WeightName kExaone4Norms[] = {
    {WeightSlot::kPostAttentionNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kPostMlpNorm, FusedPart::kAll, "layers.#.post_feedforward_layernorm"},
    {WeightSlot::kQueryNorm, FusedPart::kAll, "layers.#.self_attn.q_norm"},
    {WeightSlot::kKeyNorm, FusedPart::kAll, "layers.#.self_attn.k_norm"},
};
constexpr auto kExaone4Weights = WithNorms(kExaone4Norms);
constexpr const char* kExaone4Types[] = {"exaone4"};

void WriteGgufExaone4(GgufConfigWriter* config) {
  constexpr int64_t kPeriod = 4;
  config->WriteWindows("sliding_window", kPeriod);
}

constexpr GgufForm kExaone4Gguf[] = {{.name = "exaone4", .write_fields = &WriteGgufExaone4}};

}  // namespace

extern const Architecture kExaone4 = {.name = "exaone4",
                                      .model_types = kExaone4Types,
                                      .parse_config = &ParseExaone4,
                                      .names = {kLlamaPrefixes, kExaone4Weights, kLlamaBuffers},
                                      .gguf = kExaone4Gguf};

}  // namespace dunlin::engine
