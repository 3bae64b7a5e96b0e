// SPDX-License-Identifier: Apache-2.0
// Llama: the family's fields, with biases where the config asks for them. Seed-OSS names two of them otherwise;
// ERNIE 4.5 rotates neighbouring dimensions; IQuest-Coder has other defaults; of CWM's layers three of four slide.
// Source: transformers 5.24, models/llama, models/seed_oss, models/ernie4_5, models/iquestcoder, models/cwm.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseLlamaBy(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config) {
  ParseLlamaFamily(fields, defaults, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
}

void ParseLlama(JsonFields& fields, ModelConfig* config) {
  ParseLlamaBy(fields, {.max_context = 2048}, config);
}

void ParseIquestCoder(JsonFields& fields, ModelConfig* config) {
  ParseLlamaBy(fields, {.max_context = 131072, .head_dim = 128, .norm_epsilon = 1e-5}, config);
}

void ParseCwm(JsonFields& fields, ModelConfig* config) {
  ParseLlamaBy(fields, {.max_context = 131072, .head_dim = 128, .norm_epsilon = 1e-5, .rotary = {.default_theta = 1e6}},
               config);
  const int64_t window =
      fields.IntOr("sliding_window", 1, kMaxContextTokens, fields.Mentions("sliding_window") ? 0 : 8192);
  SetWindows(fields, window, {.full_every = 4, .full_first = true}, config);
}

void ParseSeedOss(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 524288, .head_dim = 128}, config);
  config->attention.qkv_bias = fields.BoolOr("attention_bias", true);
  config->attention.out_bias = fields.BoolOr("attention_out_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
}

constexpr LlamaDefaults kErnieDefaults = {.max_context = 131072,
                                          .head_dim = 128,
                                          .tied_embeddings = true,
                                          .norm_epsilon = 1e-5,
                                          .rotary = {.default_theta = 500000.0}};

void ParseErnie(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kErnieDefaults, config);
  config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = fields.BoolOr("use_bias", false);
  config->rotary.interleaved = true;
}

constexpr const char* kLlamaTypes[] = {"llama"};
constexpr const char* kIquestTypes[] = {"iquestcoder"};
constexpr const char* kCwmTypes[] = {"cwm"};
constexpr const char* kSeedOssTypes[] = {"seed_oss"};
constexpr const char* kErnieTypes[] = {"ernie4_5"};

// Files of Mistral's first release name no architecture of their own.
void WriteGgufLlama(GgufConfigWriter* config) {
  if (config->Window() == 0) return;
  (*config)["model_type"] = "mistral";
  (*config)["sliding_window"] = config->Window();
}

constexpr GgufForm kLlamaGguf[] = {{.name = "llama", .write_fields = &WriteGgufLlama, .interleaved_rotation = true}};
constexpr GgufForm kSeedOssGguf[] = {{.name = "seed_oss", .weights = gguf_names::kGatedLateNorms}};
constexpr GgufForm kErnieGguf[] = {{.name = "ernie4_5", .interleaved_rotation = true}};

}  // namespace

extern const Architecture kLlama = {.name = "llama",
                                    .model_types = kLlamaTypes,
                                    .parse_config = &ParseLlama,
                                    .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                    .gguf = kLlamaGguf};
extern const Architecture kIquestCoder = {.name = "iquestcoder",
                                          .model_types = kIquestTypes,
                                          .parse_config = &ParseIquestCoder,
                                          .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers}};
extern const Architecture kCwm = {.name = "cwm",
                                  .model_types = kCwmTypes,
                                  .parse_config = &ParseCwm,
                                  .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers}};
extern const Architecture kSeedOss = {.name = "seed_oss",
                                      .model_types = kSeedOssTypes,
                                      .parse_config = &ParseSeedOss,
                                      .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                      .gguf = kSeedOssGguf};
extern const Architecture kErnie = {.name = "ernie4_5",
                                    .model_types = kErnieTypes,
                                    .parse_config = &ParseErnie,
                                    .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                    .gguf = kErnieGguf};

}  // namespace dunlin::engine
