// SPDX-License-Identifier: Apache-2.0
// Prompts from files: ShareGPT JSON and JSONL, as dataset.h describes them. Pure but for reading the file.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/dataset.h"
#include "tools/load/prompt.h"

namespace dunlin::tools::load {

// At least one prompt. Errors: NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<std::vector<Prompt>> ReadShareGpt(const DatasetOptions& options);
absl::StatusOr<std::vector<Prompt>> ReadJsonl(const DatasetOptions& options);

}  // namespace dunlin::tools::load
