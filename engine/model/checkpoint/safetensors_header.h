// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: parsed in one pass and checked against the file's size before any tensor is read.
// Pure; the fuzz target of model loading.
// Source: github.com/huggingface/safetensors, README "Format" and safetensors/src/tensor.rs (validation rules).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

inline constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;  // a 1000-layer model's header has about 3 MiB
inline constexpr size_t kMaxTensors = 1'000'000;
inline constexpr size_t kMaxTensorRank = 8;
inline constexpr size_t kMaxTensorNameBytes = 512;

// Parses `header` (the bytes between the 8-byte length and the data) of a file with `data_bytes` bytes after it.
// Returns the tensors sorted by name, file_index 0. INVALID_ARGUMENT, naming the problem and the tensor: more than
// kMaxHeaderBytes; not starting with '{'; not JSON; a duplicate key; an unknown or missing field; an unknown dtype;
// more than kMaxTensors tensors, kMaxTensorRank dimensions or kMaxTensorNameBytes of name; a shape whose size overflows
// or differs from end - begin; ranges that overlap, leave a gap or do not end at `data_bytes`. Offsets need no
// alignment: tensors are copied out, never viewed in place.
absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes);

}  // namespace dunlin::engine
