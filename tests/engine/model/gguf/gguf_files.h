// SPDX-License-Identifier: Apache-2.0
// Small GGUF files for tests of their metadata.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/load/gguf_model.h"
#include "tests/engine/model/gguf/gguf_writer.h"

namespace dunlin::engine {

// A file of 2 layers, hidden size 64 and 4 heads, with an embedding of 7 tokens and without the other tensors.
GgufWriter BaseGguf(const std::string& arch);

// Adds an empty F32 tensor, for files whose tensors say what their model has.
void AddTensorNamed(const std::string& name, GgufWriter* writer);

absl::StatusOr<ParsedModel> ParseGguf(const GgufWriter& writer);

// Expects INVALID_ARGUMENT with that text.
void ExpectGgufRefused(const GgufWriter& writer, const std::string& message);

}  // namespace dunlin::engine
