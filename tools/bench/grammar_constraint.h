// SPDX-License-Identifier: Apache-2.0
// The grammar of `dunlin bench model --grammar`, over a vocabulary that belongs to no model: the benched one has random
// weights and no tokenizer.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/sampling/token_constraint.h"

namespace dunlin::tools::bench {

// A JSON schema whose outputs are longer than any benched number of tokens: a list of records with strings, numbers,
// choices and a list of strings. INVALID_ARGUMENT for a vocabulary smaller than kMinSyntheticVocabulary.
absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> JsonConstraint(const engine::ModelConfig& config);

}  // namespace dunlin::tools::bench
