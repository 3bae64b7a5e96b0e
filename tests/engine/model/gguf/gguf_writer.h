// SPDX-License-Identifier: Apache-2.0
// Writes GGUF bytes for tests, valid or, where a field says so, not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/checkpoint/gguf/gguf_header.h"

namespace dunlin::engine {

// The little-endian bytes of a value, and of a string with its length.
std::string LittleEndian(uint64_t value, size_t bytes);
std::string GgufText(std::string_view text);

struct GgufTestTensor {
  std::string name;
  std::vector<uint64_t> dimensions;  // in the file's order
  uint32_t type = 0;                 // F32
  std::string data = {};
  uint64_t offset_error = 0;  // added to the offset in the table
};

class GgufWriter {
 public:
  // Appends one metadata key of that type with these value bytes.
  GgufWriter& Add(std::string_view key, GgufType type, std::string_view value);
  GgufWriter& AddUnsigned(std::string_view key, uint32_t value);
  GgufWriter& AddFloat(std::string_view key, float value);
  GgufWriter& AddBool(std::string_view key, bool value);
  GgufWriter& AddText(std::string_view key, std::string_view value);
  GgufWriter& AddTexts(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& AddFloats(std::string_view key, const std::vector<float>& values);
  GgufWriter& AddTensor(GgufTestTensor tensor);

  // The file. header_size, unless null: bytes before the data.
  std::string Bytes(size_t* header_size = nullptr) const;

 private:
  std::string metadata_;
  uint64_t num_keys_ = 0;
  std::vector<GgufTestTensor> tensors_;
};

}  // namespace dunlin::engine
