// SPDX-License-Identifier: Apache-2.0
// A GGUF file as a model: its metadata as the texts of a Hugging Face directory, its config, and its tensors.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"
#include "engine/model/load/model_directory.h"

namespace dunlin::engine {

// Whether a model's path names a file: a GGUF file, the only kind of model that is one.
bool IsGgufPath(const std::string& path);

// The file at `path`, or the first of its parts, and its tensors. Errors: as GgufFile::Open and GgufTensors::Open.
absl::StatusOr<std::unique_ptr<GgufTensors>> OpenGguf(const std::string& path);

// The architecture, the config and the names of the weights. Reads one small tensor, the factors of the rotary
// frequencies, where the file has it. Errors: as SelectGgufArchitecture, WriteGgufConfig and ParseModelConfig.
absl::StatusOr<ParsedModel> ParseGgufModel(GgufTensors* tensors);

// config.json, generation_config.json, tokenizer_config.json and kVocabularyFile of text, as far as the metadata
// has them, and the pooling of an encoder as sentence-transformers writes it.
absl::StatusOr<std::unique_ptr<TextFiles>> ReadGgufTexts(const GgufTensors& tensors);

// About the bytes of the vocabulary that ReadGgufTexts writes; only the file's header is read. Errors: as
// GgufFile::Open.
absl::StatusOr<size_t> EstimateGgufText(const std::string& path);

// The text files of a model: those of its directory, or of its GGUF file.
absl::StatusOr<std::unique_ptr<TextFiles>> OpenModelFiles(const std::string& path);

}  // namespace dunlin::engine
