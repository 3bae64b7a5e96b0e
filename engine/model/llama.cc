// Llama: the words themselves, with biases where the config asks for them.
// Source: transformers 5.23, models/llama.
#include "engine/model/llama_words.h"

namespace dunlin::engine {
namespace {

void ParseLlama(JsonFields& fields, ModelConfig* config) {
  ParseLlamaWords(fields, {.max_context = 2048}, config);
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
}

constexpr const char* kWords[] = {"llama"};

}  // namespace

const Architecture kLlama = {"llama", kWords, &ParseLlama, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};

}  // namespace dunlin::engine
