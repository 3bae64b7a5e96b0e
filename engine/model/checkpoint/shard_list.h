// SPDX-License-Identifier: Apache-2.0
// Which files make up a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"

namespace dunlin::engine {

inline constexpr size_t kMaxShards = 512;
inline constexpr const char* kSafetensorsEnding = ".safetensors";
inline constexpr const char* kNanoGptFile = "ckpt.pt";  // config and weights in one

// The first that exists: model.safetensors; the files of model.safetensors.index.json; every *.safetensors;
// pytorch_model.bin; the files of pytorch_model.bin.index.json; kNanoGptFile. Sorted.
// NOT_FOUND: there is none, or a shard is missing (named).
// INVALID_ARGUMENT: the index is malformed or contains something other than plain file names.
absl::StatusOr<std::vector<std::string>> ListShards(const Directory& directory);

}  // namespace dunlin::engine
