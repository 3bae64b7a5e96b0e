// SPDX-License-Identifier: Apache-2.0
// Ministral 3, Devstral 2: Mistral whose queries take a factor that grows with their position, by itself or as the text
// part of a mistral3. Source: transformers 5.23, models/ministral3.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kMinistral3Defaults = {
    .max_context = 262144, .head_dim = 128, .norm_epsilon = 1e-5, .rotary = {.default_theta = 1e6}};

// Published configs have rope_parameters: transformers' default, YaRN of constants, is not served.
void ParseMinistral3(JsonFields& fields, ModelConfig* config) {
  SetQueryScale(fields, config);
  ParseLlamaFamily(fields, kMinistral3Defaults, config);
  if (fields.Has("layer_types"))
    fields.Fail("layer_types is set; all layers of model_type 'ministral3' have one window");
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

constexpr const char* kMinistral3Types[] = {"ministral3"};
constexpr const char* kMinistral3MultimodalTypes[] = {"mistral3"};

// Files of Mistral Small 3.1 have the same name.
void WriteGgufMistral3(GgufConfigWriter* config) {
  const double beta = config->fields().Number(config->Key("attention.temperature_scale")).value_or(0.0);
  if (beta == 0.0) {
    (*config)["model_type"] = "mistral";
    (*config)["sliding_window"] = nullptr;
    return;
  }
  // The factor of cosines and sines is 1: of the two that it is the quotient of, files have one.
  WriteGgufQueryScale(config, beta, 1.0);
}

constexpr GgufForm kMinistral3Gguf[] = {
    {.name = "mistral3", .write_fields = &WriteGgufMistral3, .interleaved_rotation = true}};

}  // namespace

extern const Architecture kMinistral3 = {.name = "ministral3",
                                         .model_types = kMinistral3Types,
                                         .parse_config = &ParseMinistral3,
                                         .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers, kTextPartAliases},
                                         .gguf = kMinistral3Gguf,
                                         .multimodal_types = kMinistral3MultimodalTypes};

}  // namespace dunlin::engine
