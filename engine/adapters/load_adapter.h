// SPDX-License-Identifier: Apache-2.0
// From the files of an adapter to its matrices, packed in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/adapters/adapter.h"
#include "engine/adapters/adapter_file.h"
#include "engine/model/model.h"

namespace dunlin::engine {

// What one adapter may take.
struct AdapterRoom {
  int32_t max_rank = 0;
  size_t max_bytes = 0;
};

// path: a PEFT directory, or a GGUF file, by the model's own form. Matrices keep the values of the file, and its dtype
// where both of a pair have the same and the model has no factor for them; else they are FP32. Errors, prefixed with
// the path: as OpenPeftAdapter and OpenGgufAdapter; INVALID_ARGUMENT for a module that the model does not have or that
// adapters cannot change, a shape that is not the module's, a rank above max_rank, a value that is not finite;
// RESOURCE_EXHAUSTED where it takes more than max_bytes. Any thread.
absl::StatusOr<PackedAdapter> ReadAdapter(const Model& model, const std::string& path, const AdapterRoom& room);

// AdapterLease::id of another adapter, or of another load.
uint64_t NextAdapterId();

// In device memory, of modules whose matrices are read here. Errors: as ReadAdapter and Adapter::Create.
absl::StatusOr<std::shared_ptr<const Adapter>> MakeAdapter(const Model& model,
                                                           const std::vector<AdapterModule>& modules,
                                                           const AdapterRoom& room);

}  // namespace dunlin::engine
