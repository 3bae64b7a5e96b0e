// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/rotary_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> RotaryRows::Open(std::unique_ptr<TensorSource> stored,
                                                               const std::vector<RotatedTensor>& rotated,
                                                               int32_t rotary_dim) {
  std::unique_ptr<RotaryRows> rows(new RotaryRows(std::move(stored), rotary_dim));
  for (const RotatedTensor& tensor : rotated) {
    if (absl::Status status = rows->Add(tensor); !status.ok()) return status;
  }
  return rows;
}

absl::Status RotaryRows::Add(const RotatedTensor& rotated) {
  const auto& [name, block_rows, first] = rotated;
  const TensorInfo* tensor = stored().Find(name);
  if (tensor == nullptr || Derives(name)) return absl::OkStatus();
  if (tensor->dtype->loadable == kernels::DType::kF8E4M3) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' is F8_E4M3; with interleaved rotary positions wider dtypes are loaded"));
  }
  if (tensor->shape.empty() || tensor->shape[0] % block_rows != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' has rows that are no whole heads of ", block_rows));
  }
  Derive(name, *tensor->dtype, tensor->shape, *tensor);
  blocks_.push_back({block_rows, first});
  return absl::OkStatus();
}

int64_t RotaryRows::StoredRow(const Block& block, int64_t row) const {
  const int64_t half = rotary_dim_ / 2;
  const int64_t of_rotated = row - block.first;
  if (of_rotated < 0 || of_rotated >= 2 * half) return row;
  return block.first + (of_rotated < half ? 2 * of_rotated : 2 * (of_rotated - half) + 1);
}

// Whole heads are read, and the rows that are wanted picked out of them.
absl::Status RotaryRows::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const Block& block = blocks_[index];
  const uint64_t row_bytes = Info(index).end / static_cast<uint64_t>(Info(index).shape[0]);
  const uint64_t head_bytes = row_bytes * static_cast<uint64_t>(block.rows);
  const uint64_t begin = first_byte / head_bytes * head_bytes;
  const uint64_t end = (first_byte + out.size() + head_bytes - 1) / head_bytes * head_bytes;
  std::vector<std::byte> heads(end - begin);
  if (absl::Status status = stored().Read(Source(index), begin, heads); !status.ok()) return status;
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = first_byte + done - begin;  // in the order of the halves
    const uint64_t in_row = at % row_bytes;
    const auto row = static_cast<int64_t>(at % head_bytes / row_bytes);
    const auto stored_row = static_cast<uint64_t>(StoredRow(block, row));
    const uint64_t count = std::min(row_bytes - in_row, out.size() - done);
    std::memcpy(out.data() + done, heads.data() + at / head_bytes * head_bytes + stored_row * row_bytes + in_row,
                count);
    done += count;
  }
  return absl::OkStatus();
}

absl::Status RotaryRows::ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const {
  const Block& block = blocks_[index];
  const int64_t block_rows = block.rows;
  const int64_t begin = first_row / block_rows * block_rows;
  const int64_t end = (first_row + num_rows + block_rows - 1) / block_rows * block_rows;
  CodedRows heads;
  if (absl::Status status = stored().ReadCodes(Source(index), begin, end - begin, &heads); !status.ok()) return status;
  out->Resize(heads.traits, num_rows, heads.columns);
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t row = first_row + i - begin;
    out->CopyRow(heads, row - row % block_rows + StoredRow(block, row % block_rows), i);
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
