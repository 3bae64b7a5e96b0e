// SPDX-License-Identifier: Apache-2.0
// The grammar of `dunlin bench model --grammar`, over a vocabulary that belongs to no model: the benched one has random
// weights and no tokenizer.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/sampling/token_constraint.h"

namespace dunlin::tools::bench {

// A tokenizer.json of `vocab_size` byte-level tokens: the bytes; words with and without a space before them, capitals
// and pieces of words; numbers; runs of white space; the punctuation of JSON and of programs; pieces of characters that
// have several bytes; and "<|endoftext|>" as the last one. Deterministic. REQUIRES: vocab_size >= 1024.
std::string SyntheticTokenizerJson(int32_t vocab_size);

// A JSON schema whose output does not end within any benched number of tokens: records of strings, numbers and choices.
absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> JsonConstraint(const engine::ModelConfig& config);

}  // namespace dunlin::tools::bench
