// Which safetensors files make up a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"

namespace dunlin::engine {

inline constexpr size_t kMaxShards = 512;

// In this order: model.safetensors; the files that model.safetensors.index.json maps tensors to; every *.safetensors.
// Sorted. NOT_FOUND: there is none (a directory with only pytorch_model.bin is told why that is not read), or a shard
// is missing, named. INVALID_ARGUMENT: the index is malformed or names something other than a plain file name.
absl::StatusOr<std::vector<std::string>> ListShards(const Directory& directory);

}  // namespace dunlin::engine
