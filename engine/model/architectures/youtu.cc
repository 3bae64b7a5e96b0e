// SPDX-License-Identifier: Apache-2.0
// Youtu LLM: DeepSeek V3's attention, dense MLPs. Source: transformers 5.23, models/youtu.
#include "engine/model/architectures/deepseek_family.h"

namespace dunlin::engine {
namespace {

void ParseYoutu(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekFamily(fields, {.max_context = 131072, .tied_embeddings = true}, config);
  config->rotary.interleaved = fields.BoolOr("rope_interleave", true);
}

constexpr const char* kYoutuTypes[] = {"youtu"};

}  // namespace

extern const Architecture kYoutu = {.name = "youtu",
                                    .model_types = kYoutuTypes,
                                    .parse_config = &ParseYoutu,
                                    .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases}};

}  // namespace dunlin::engine
