// Mistral: Llama with one sliding window for all layers (none where sliding_window is null, as in later releases).
// Source: transformers 5.23, models/mistral.
#include "engine/model/attention_windows.h"
#include "engine/model/llama_words.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseMistral(JsonFields& fields, ModelConfig* config) {
  ParseLlamaWords(fields, {.max_context = 131072}, config);
  if (fields.Has("layer_types")) fields.Fail("layer_types is set; all layers of model_type 'mistral' have one window");
  SetWindows(fields, ParseWindow(fields), {}, config);
}

constexpr const char* kWords[] = {"mistral"};

}  // namespace

const Architecture kMistral = {"mistral", kWords, &ParseMistral, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};

}  // namespace dunlin::engine
