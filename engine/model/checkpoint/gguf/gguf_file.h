// SPDX-License-Identifier: Apache-2.0
// One open GGUF file: its checked header, and typed access to its metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/gguf/gguf_header.h"

namespace dunlin::engine {

class GgufFile {
 public:
  // Opens and checks the header; no tensor is read. Errors: those of Directory::OpenFile and ParseGgufHeader, prefixed
  // with the file's name.
  static absl::StatusOr<GgufFile> Open(const Directory& directory, std::string_view name);

  const File& file() const { return file_; }
  const GgufHeader& header() const { return header_; }

 private:
  GgufFile(File file, GgufHeader header) : file_(std::move(file)), header_(std::move(header)) {}

  File file_;
  GgufHeader header_;
};

// Reads metadata and keeps the first error, so that a parser can read all it needs and check status() once. Messages
// say key, value and limit. After an error every reader returns its fallback.
class GgufFields {
 public:
  explicit GgufFields(const GgufFile& file) : file_(file) {}

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  bool IsArray(std::string_view key) const { return Has(key) && Find(key)->is_array; }
  // An integer of any width in [min, max], or an array of equal ones (a value per layer); none when it is absent.
  std::optional<int64_t> Int(std::string_view key, int64_t min, int64_t max);
  // A number of any type.
  std::optional<double> Number(std::string_view key);
  std::optional<bool> Bool(std::string_view key);
  // At most `limit` bytes; "" when it is absent.
  std::string Text(std::string_view key, uint64_t limit);
  // At most max_count strings of at most max_bytes in all; empty when the key is absent.
  std::vector<std::string> Texts(std::string_view key, uint64_t max_count, uint64_t max_bytes);
  // At most max_count numbers of any type; empty when the key is absent.
  std::vector<double> Numbers(std::string_view key, uint64_t max_count);

  void Fail(std::string_view key, const std::string& what);
  // Records an error of another reader of the file.
  void Adopt(const absl::Status& error) { status_.Update(error); }
  const absl::Status& status() const { return status_; }

 private:
  const GgufValue* Find(std::string_view key) const;
  std::optional<double> Scalar(const GgufValue& value, uint64_t bits) const;
  std::vector<double> Elements(std::string_view key, const GgufValue& value, uint64_t max_count);

  const GgufFile& file_;
  absl::Status status_;
};

}  // namespace dunlin::engine
