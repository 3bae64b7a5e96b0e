// SPDX-License-Identifier: Apache-2.0
// The embedding defaults of an encoder's directory, from the files that sentence-transformers writes beside a model.
// Source: sentence-transformers 5, modules.json, 1_Pooling/config.json and sentence_bert_config.json.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/encoder/encode_call.h"

namespace dunlin::engine {

// Defaults of a request. Without the files: the mean, not normalised, as in sentence-transformers.
struct EmbeddingSettings {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  int32_t max_input_tokens = 0;  // max_seq_length of sentence_bert_config.json; 0: the model's own limit
};

// INVALID_ARGUMENT names file, field and value, also for an unsupported module or pooling: vectors without it would be
// wrong.
absl::StatusOr<EmbeddingSettings> ReadEmbeddingSettings(const TextFiles& files);

}  // namespace dunlin::engine
