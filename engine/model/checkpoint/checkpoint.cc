// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/checkpoint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/checkpoint/shard_list.h"
#include "engine/model/checkpoint/torch/torch_file.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const Directory& directory) {
  const absl::StatusOr<std::vector<std::string>> names = ListShards(directory);
  if (!names.ok()) return names.status();
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint());
  for (const std::string& name : *names) {
    const bool safetensors = name.ends_with(kSafetensorsEnding);
    absl::StatusOr<CheckpointFile> file =
        safetensors ? OpenSafetensorsFile(directory, name) : OpenTorchFile(directory, name);
    if (!file.ok()) return file.status();
    checkpoint->files_.push_back(*std::move(file));
  }
  if (absl::Status status = checkpoint->MergeTensors(); !status.ok()) return status;
  return checkpoint;
}

absl::Status Checkpoint::MergeTensors() {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (tensors_.size() + files_[i].tensors().size() > kMaxTensors) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint has more than ", kMaxTensors, " tensors"));
    }
    for (const TensorInfo& tensor : files_[i].tensors()) {
      tensors_.push_back(tensor);
      tensors_.back().file_index = static_cast<int32_t>(i);
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                       [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twin == tensors_.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor '", twin->name, "' is in ",
                                                 files_[static_cast<size_t>(twin->file_index)].name(), " and in ",
                                                 files_[static_cast<size_t>((twin + 1)->file_index)].name()));
}

const TensorInfo* Checkpoint::Find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const TensorInfo& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

absl::Status Checkpoint::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  return files_[static_cast<size_t>(tensor.file_index)].Read(tensor, first_byte, out);
}

absl::StatusOr<std::byte*> Checkpoint::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                PageBuffer* buffer) const {
  return files_[static_cast<size_t>(tensor.file_index)].ReadOnce(tensor, first_byte, bytes, buffer);
}

std::string Checkpoint::FileOf(const TensorInfo& tensor) const {
  return files_[static_cast<size_t>(tensor.file_index)].name();
}

absl::Status Checkpoint::CheckUnchanged() const {
  for (const CheckpointFile& file : files_) {
    if (absl::Status status = file.CheckUnchanged(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<const TensorInfo*> Checkpoint::List() const {
  std::vector<const TensorInfo*> list;
  for (const TensorInfo& tensor : tensors_) list.push_back(&tensor);
  return list;
}

}  // namespace dunlin::engine
