// SPDX-License-Identifier: Apache-2.0
// A checkpoint of one or more files, safetensors or what torch.save writes, as one set of named tensors.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/checkpoint_file.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class Checkpoint final : public TensorSource {
 public:
  // Opens every shard and checks every header; no tensor is read. Files stay open until destruction.
  // NOT_FOUND: no weights, or a shard of the index is missing. INVALID_ARGUMENT: a malformed file, or a tensor that
  // two files contain. Messages name the file.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const Directory& directory);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override;
  std::vector<const TensorInfo*> List() const override;

 private:
  Checkpoint() = default;
  absl::Status MergeTensors();

  std::vector<CheckpointFile> files_;
  std::vector<TensorInfo> tensors_;  // of all files, sorted by name
};

}  // namespace dunlin::engine
