// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file: its metadata and its table of tensors, checked against the file's size before any tensor
// is read. Strings and arrays stay in the file, known by their place, so that memory is bounded by the number of keys
// and tensors. Pure but for `read`.
// Source: github.com/ggml-org/ggml, docs/gguf.md (version 3; version 2 has the same layout).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/checkpoint/gguf/ggml_types.h"

namespace dunlin::engine {

inline constexpr uint64_t kMaxGgufHeaderBytes = uint64_t{256} << 20;  // 256 thousand tokens with merges take 16 MiB
inline constexpr uint64_t kMaxGgufKeys = 4096;
inline constexpr uint64_t kMaxGgufKeyBytes = 256;
inline constexpr uint64_t kMaxGgufTensors = 65536;  // 1024 layers of 64
inline constexpr uint64_t kMaxGgufNameBytes = 256;
inline constexpr uint32_t kMaxGgufRank = 4;

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// A metadata value. The bytes of a string, and the elements of an array, are in the file at `offset`.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of the elements, in an array; never kArray
  bool is_array = false;
  uint64_t offset = 0;  // bytes, from the start of the file
  uint64_t count = 0;   // bytes of a string, elements of an array
  uint64_t bytes = 0;   // in the file, of a string or of all elements (8 for the length of each string in an array)
  uint64_t bits = 0;    // a scalar as stored, the upper bytes zero
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // row-major: the reverse of the file's order
  uint64_t offset = 0;         // bytes, from the start of the file
  uint64_t bytes = 0;
};

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // by offset
};

// Fills `out` from `offset`; only called for ranges inside the file.
using GgufRead = std::function<absl::Status(uint64_t offset, std::span<std::byte> out)>;

// Parses the header of a file of `file_bytes` bytes. INVALID_ARGUMENT, naming the key or the tensor: not GGUF, another
// version, big-endian; cut short; a count, a length or a rank above its limit; an unknown type; an array of arrays; a
// key or a tensor that appears twice; a dimension below 1, a size that overflows, a row that is no whole number of
// blocks; an alignment that is no power of two; an offset that is not aligned; data that overlap or end outside the
// file. Errors of `read` are returned as they are.
absl::StatusOr<GgufHeader> ParseGgufHeader(uint64_t file_bytes, const GgufRead& read);

// Bytes of one element; 0 for strings and arrays.
uint32_t ElementBytes(GgufType type);

}  // namespace dunlin::engine
