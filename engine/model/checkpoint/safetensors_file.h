// SPDX-License-Identifier: Apache-2.0
// One open safetensors file: its checked tensors, read with pread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class SafetensorsFile {
 public:
  // Opens and checks the header; no tensor is read. Errors: those of Directory::OpenFile and ParseSafetensorsHeader,
  // prefixed with the file's name.
  static absl::StatusOr<SafetensorsFile> Open(const Directory& directory, std::string_view name);

  const std::string& name() const { return file_.name(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name

  // REQUIRES: tensor is one of tensors() and the range lies inside it.
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const;
  // As TensorSource::ReadOnce. REQUIRES: tensor is one of tensors() and the range ends within the file.
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const;
  absl::Status CheckUnchanged() const { return file_.CheckUnchanged(); }

 private:
  SafetensorsFile(File file, uint64_t data_offset, std::vector<TensorInfo> tensors);

  File file_;
  uint64_t data_offset_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace dunlin::engine
