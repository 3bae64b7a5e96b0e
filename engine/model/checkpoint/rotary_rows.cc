// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/rotary_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kFirstRotaryFileIndex = 1 << 24;  // above those of any other source

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> RotaryRows::Open(std::unique_ptr<TensorSource> stored,
                                                               const std::vector<RotatedTensor>& rotated,
                                                               int32_t rotary_dim) {
  std::unique_ptr<RotaryRows> rows(new RotaryRows(std::move(stored), rotary_dim));
  for (const auto& [name, block_rows, first] : rotated) {
    const TensorInfo* tensor = rows->stored_->Find(name);
    if (tensor == nullptr) continue;
    if (tensor->dtype->loadable == kernels::DType::kF8E4M3) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", name, "' is F8_E4M3; with interleaved rotary positions wider dtypes are loaded"));
    }
    if (tensor->shape.empty() || tensor->shape[0] % block_rows != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", name, "' has rows that are no whole heads of ", block_rows));
    }
    TensorInfo info = *tensor;
    info.file_index = kFirstRotaryFileIndex + static_cast<int32_t>(rows->entries_.size());
    info.begin = 0;
    info.end = tensor->end - tensor->begin;
    rows->entries_.push_back({std::move(info), tensor, block_rows, first});
  }
  // Last, because entries move while there come more. Of a tensor that several parts share the first entry counts.
  for (size_t i = 0; i < rows->entries_.size(); ++i) rows->by_name_.emplace(rows->entries_[i].info.name, i);
  return rows;
}

const RotaryRows::Entry* RotaryRows::EntryOf(const TensorInfo& tensor) const {
  if (tensor.file_index < kFirstRotaryFileIndex) return nullptr;
  return &entries_[static_cast<size_t>(tensor.file_index - kFirstRotaryFileIndex)];
}

const TensorInfo& RotaryRows::StoredOf(const TensorInfo& tensor) const {
  const Entry* entry = EntryOf(tensor);
  return entry == nullptr ? tensor : *entry->stored;
}

int64_t RotaryRows::StoredRow(const Entry& entry, int64_t row) const {
  const int64_t half = rotary_dim_ / 2;
  const int64_t of_rotated = row - entry.first;
  if (of_rotated < 0 || of_rotated >= 2 * half) return row;
  return entry.first + (of_rotated < half ? 2 * of_rotated : 2 * (of_rotated - half) + 1);
}

const TensorInfo* RotaryRows::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? stored_->Find(name) : &entries_[found->second].info;
}

// Whole heads are read, and the rows that are wanted picked out of them.
absl::Status RotaryRows::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const Entry* entry = EntryOf(tensor);
  if (entry == nullptr) return stored_->Read(tensor, first_byte, out);
  if (out.empty()) return absl::OkStatus();
  const uint64_t row_bytes = tensor.end / static_cast<uint64_t>(tensor.shape[0]);
  const uint64_t head_bytes = row_bytes * static_cast<uint64_t>(entry->block_rows);
  const uint64_t begin = first_byte / head_bytes * head_bytes;
  const uint64_t end = (first_byte + out.size() + head_bytes - 1) / head_bytes * head_bytes;
  std::vector<std::byte> heads(end - begin);
  if (absl::Status status = stored_->Read(*entry->stored, begin, heads); !status.ok()) return status;
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = first_byte + done - begin;  // in the order of the halves
    const uint64_t in_row = at % row_bytes;
    const auto row = static_cast<int64_t>(at % head_bytes / row_bytes);
    const auto stored_row = static_cast<uint64_t>(StoredRow(*entry, row));
    const uint64_t count = std::min(row_bytes - in_row, out.size() - done);
    std::memcpy(out.data() + done, heads.data() + at / head_bytes * head_bytes + stored_row * row_bytes + in_row,
                count);
    done += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> RotaryRows::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                PageBuffer* buffer) const {
  if (EntryOf(tensor) == nullptr) return stored_->ReadOnce(tensor, first_byte, bytes, buffer);
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

absl::Status RotaryRows::ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows,
                                   CodedRows* out) const {
  const Entry* entry = EntryOf(tensor);
  if (entry == nullptr) return stored_->ReadCodes(tensor, first_row, num_rows, out);
  const int64_t block_rows = entry->block_rows;
  const int64_t begin = first_row / block_rows * block_rows;
  const int64_t end = (first_row + num_rows + block_rows - 1) / block_rows * block_rows;
  CodedRows heads;
  if (absl::Status status = stored_->ReadCodes(*entry->stored, begin, end - begin, &heads); !status.ok()) return status;
  out->Resize(heads.traits, num_rows, heads.columns);
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t row = first_row + i - begin;
    out->CopyRow(heads, row - row % block_rows + StoredRow(*entry, row % block_rows), i);
  }
  return absl::OkStatus();
}

std::string RotaryRows::FileOf(const TensorInfo& tensor) const {
  return stored_->FileOf(StoredOf(tensor));
}

std::vector<const TensorInfo*> RotaryRows::List() const {
  std::vector<const TensorInfo*> list = stored_->List();
  for (const TensorInfo*& tensor : list) {
    const auto found = by_name_.find(tensor->name);
    if (found != by_name_.end()) tensor = &entries_[found->second].info;
  }
  return list;
}

}  // namespace dunlin::engine
