// SPDX-License-Identifier: Apache-2.0
// Reads the little-endian header of a GGUF file from front to back through one small buffer. The first error is kept;
// after it every reader returns 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/checkpoint/gguf/gguf_header.h"

namespace dunlin::engine {

class GgufCursor {
 public:
  // `read` outlives this. begin: offset of the first byte, at most file_bytes.
  GgufCursor(uint64_t file_bytes, const GgufRead& read, uint64_t begin = 0)
      : file_bytes_(file_bytes), read_(read), offset_(begin) {}

  uint64_t offset() const { return offset_; }
  const absl::Status& status() const { return status_; }
  // What is being read, for messages.
  void set_where(std::string where) { where_ = std::move(where); }

  // An unsigned little-endian integer of `bytes` bytes, 1 to 8.
  uint64_t Unsigned(uint32_t bytes);
  // A string of at most `limit` bytes, its 64-bit length first.
  std::string Text(uint64_t limit, const char* what);
  // The position of the next `bytes` bytes, which are skipped.
  uint64_t Skip(uint64_t bytes);

  // Records "<where>: <what>".
  void Fail(const std::string& what);

 private:
  // Whether the next `bytes` bytes are in the file and the header's limit.
  bool Reserve(uint64_t bytes);
  void Copy(std::byte* out, size_t bytes);

  uint64_t file_bytes_;
  const GgufRead& read_;
  uint64_t offset_;
  std::vector<std::byte> buffer_;  // of the file, from buffer_begin_
  uint64_t buffer_begin_ = 0;
  std::string where_ = "header";
  absl::Status status_;
};

}  // namespace dunlin::engine
