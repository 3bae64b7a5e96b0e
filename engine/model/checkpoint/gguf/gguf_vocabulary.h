// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF file, as texts: its vocabulary in the form that text builds a tokenizer from
// (rust/src/vocabulary), and a tokenizer_config.json with its named tokens and its chat template.
// Source: github.com/ggml-org/ggml, docs/gguf.md (tokenizer keys).
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/gguf/gguf_file.h"

namespace dunlin::engine {

struct GgufTokenizerTexts {
  std::string vocabulary;  // "": the file has no tokenizer
  std::string config;
};

// INVALID_ARGUMENT names the key: of the wrong type, more than kMaxVocabSize tokens, more text than a tokenizer.json
// may have, scores or types of another number than the tokens, an id outside the vocabulary.
absl::StatusOr<GgufTokenizerTexts> WriteGgufTokenizer(const GgufFile& file);

// About the bytes of GgufTokenizerTexts::vocabulary, from the header alone.
size_t EstimateGgufVocabulary(const GgufHeader& header);

}  // namespace dunlin::engine
