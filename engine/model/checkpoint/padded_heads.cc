// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/padded_heads.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kFirstPaddedFileIndex = 3 << 24;  // above those of any other source

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> PaddedHeads::Open(std::unique_ptr<TensorSource> stored,
                                                                const std::vector<Matrix>& matrices, int64_t stored_dim,
                                                                int64_t head_dim) {
  std::unique_ptr<PaddedHeads> heads(new PaddedHeads(std::move(stored)));
  for (const Matrix& matrix : matrices) {
    if (absl::Status status = heads->Add(matrix, stored_dim, head_dim); !status.ok()) return status;
  }
  // Last, because entries move while there come more.
  for (size_t i = 0; i < heads->entries_.size(); ++i) heads->by_name_.emplace(heads->entries_[i].info.name, i);
  return heads;
}

absl::Status PaddedHeads::Add(const Matrix& matrix, int64_t stored_dim, int64_t head_dim) {
  const TensorInfo* tensor = stored_->Find(matrix.name);
  if (tensor == nullptr) return absl::OkStatus();
  if (tensor->shape.size() != 2 || tensor->shape[matrix.columns ? 1 : 0] % stored_dim != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", matrix.name, "' has ",
                                                   matrix.columns ? "columns" : "rows", " that are no whole heads of ",
                                                   stored_dim));
  }
  if (tensor->dtype->loadable == kernels::DType::kF8E4M3) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", matrix.name, "' is F8_E4M3; of heads with other widths of V wider dtypes are loaded"));
  }
  TensorInfo info = *tensor;
  int64_t& heads = info.shape[matrix.columns ? 1 : 0];
  heads = heads / stored_dim * head_dim;
  info.file_index = kFirstPaddedFileIndex + static_cast<int32_t>(entries_.size());
  info.begin = 0;
  info.end = (tensor->end - tensor->begin) / static_cast<uint64_t>(stored_dim) * static_cast<uint64_t>(head_dim);
  const uint64_t unit = (matrix.columns ? 1 : static_cast<uint64_t>(info.shape[1])) * tensor->dtype->bits / 8;
  entries_.push_back({.info = std::move(info),
                      .stored = tensor,
                      .block_bytes = unit * static_cast<uint64_t>(head_dim),
                      .stored_bytes = unit * static_cast<uint64_t>(stored_dim)});
  return absl::OkStatus();
}

const PaddedHeads::Entry* PaddedHeads::EntryOf(const TensorInfo& tensor) const {
  if (tensor.file_index < kFirstPaddedFileIndex) return nullptr;
  return &entries_[static_cast<size_t>(tensor.file_index - kFirstPaddedFileIndex)];
}

const TensorInfo* PaddedHeads::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? stored_->Find(name) : &entries_[found->second].info;
}

// The stored parts of all blocks that are touched are read at once.
absl::Status PaddedHeads::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const Entry* entry = EntryOf(tensor);
  if (entry == nullptr) return stored_->Read(tensor, first_byte, out);
  if (out.empty()) return absl::OkStatus();
  const uint64_t begin = first_byte / entry->block_bytes;
  const uint64_t end = (first_byte + out.size() + entry->block_bytes - 1) / entry->block_bytes;
  std::vector<std::byte> stored((end - begin) * entry->stored_bytes);
  absl::Status status = stored_->Read(*entry->stored, begin * entry->stored_bytes, stored);
  if (!status.ok()) return status;
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = first_byte + done;
    const uint64_t in_block = at % entry->block_bytes;
    const bool zeros = in_block >= entry->stored_bytes;
    const uint64_t count =
        std::min((zeros ? entry->block_bytes : entry->stored_bytes) - in_block, uint64_t{out.size() - done});
    if (zeros) {
      std::memset(out.data() + done, 0, count);
    } else {
      const uint64_t block = at / entry->block_bytes - begin;
      std::memcpy(out.data() + done, stored.data() + block * entry->stored_bytes + in_block, count);
    }
    done += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> PaddedHeads::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                 PageBuffer* buffer) const {
  if (EntryOf(tensor) == nullptr) return stored_->ReadOnce(tensor, first_byte, bytes, buffer);
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

std::string PaddedHeads::FileOf(const TensorInfo& tensor) const {
  const Entry* entry = EntryOf(tensor);
  return stored_->FileOf(entry == nullptr ? tensor : *entry->stored);
}

std::vector<const TensorInfo*> PaddedHeads::List() const {
  std::vector<const TensorInfo*> list = stored_->List();
  for (const TensorInfo*& tensor : list) {
    const auto found = by_name_.find(tensor->name);
    if (found != by_name_.end()) tensor = &entries_[found->second].info;
  }
  return list;
}

}  // namespace dunlin::engine
