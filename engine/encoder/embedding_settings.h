// SPDX-License-Identifier: Apache-2.0
// The embedding defaults of an encoder's directory, from the files that sentence-transformers writes beside a model.
// Source: sentence-transformers 5, modules.json, 1_Pooling/config.json, sentence_bert_config.json and
// config_sentence_transformers.json; of a cross-encoder, config.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/encoder/encode_call.h"

namespace dunlin::engine {

// Defaults of a request. Without the files: the mean, not normalised, as in sentence-transformers.
struct EmbeddingSettings {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  int32_t max_input_tokens = 0;  // max_seq_length of sentence_bert_config.json; 0: the model's own limit
  // Texts before an input, by name, of config_sentence_transformers.json.
  std::map<std::string, std::string> prompts;
  std::string default_prompt;  // the name of one, or ""
  bool pools_prompt = true;    // include_prompt: the prompt's tokens are pooled with the others
  // Of a cross-encoder with one label: the sigmoid of its logit is its score; false: the logit is.
  bool sigmoid_scores = true;
};

// num_labels: ModelConfig's; the activation of scores is read where it is 1, because only such a model reranks.
// INVALID_ARGUMENT names file, field and value, also for an unsupported module or pooling: vectors without it would be
// wrong.
absl::StatusOr<EmbeddingSettings> ReadEmbeddingSettings(const TextFiles& files, int32_t num_labels);

}  // namespace dunlin::engine
