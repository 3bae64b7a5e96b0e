// SPDX-License-Identifier: Apache-2.0
// The grammar of `dunlin bench model --grammar`, over the model's own vocabulary or, where its weights are random and
// it has none, over a synthetic one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/token_constraint.h"

namespace dunlin::tools::bench {

// A JSON schema whose outputs are longer than any benched number of tokens: a list of records with strings, numbers,
// choices and a list of strings. model_dir: with the model's tokenizer; "" for a synthetic vocabulary.
// Errors: the tokenizer's; INVALID_ARGUMENT for a model with fewer tokens than kMinSyntheticVocabulary.
absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> JsonConstraint(const engine::ModelConfig& config,
                                                                              const std::string& model_dir);

}  // namespace dunlin::tools::bench
