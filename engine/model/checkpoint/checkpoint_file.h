// SPDX-License-Identifier: Apache-2.0
// One open file of a checkpoint: its checked tensors, read with pread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class CheckpointFile {
 public:
  // tensors: sorted by name, their ranges from `data_offset` on inside the file.
  CheckpointFile(File file, uint64_t data_offset, std::vector<TensorInfo> tensors)
      : file_(std::move(file)), data_offset_(data_offset), tensors_(std::move(tensors)) {}

  const std::string& name() const { return file_.name(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name

  // REQUIRES: tensor is one of tensors() and the range lies inside it.
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
    return file_.ReadAt(data_offset_ + tensor.begin + first_byte, out);
  }
  // As TensorSource::ReadOnce. REQUIRES: tensor is one of tensors() and the range ends within the file.
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const {
    return file_.ReadOnce(data_offset_ + tensor.begin + first_byte, bytes, buffer);
  }
  absl::Status CheckUnchanged() const { return file_.CheckUnchanged(); }

 private:
  File file_;
  uint64_t data_offset_;
  std::vector<TensorInfo> tensors_;
};

// Opens a safetensors file and checks its header; no tensor is read. Errors: those of Directory::OpenFile and
// ParseSafetensorsHeader, prefixed with the file's name.
absl::StatusOr<CheckpointFile> OpenSafetensorsFile(const Directory& directory, std::string_view name);

}  // namespace dunlin::engine
