// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose Q and K rotate neighbouring dimensions (2i, 2i + 1), with the rows of each head in the order of
// two halves that the kernels rotate: row 2i + j of the rotated part becomes row i + j * rotary_dim / 2. Scores are
// sums over a head's dimensions, so that their order is free as long as Q and K share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

// A tensor whose rows change places: of each block of block_rows rows those from `first` on, rotary_dim of them.
struct RotatedTensor {
  std::string name;
  int64_t block_rows;  // of a head
  int64_t first;
};

class RotaryRows final : public TensorSource {
 public:
  // rotated: weights [heads * block_rows, columns] and biases; those that `stored` does not have are left to whoever
  // looks for them. 0 < rotary_dim <= block_rows - first, even. Errors: INVALID_ARGUMENT where a tensor is FP8 or its
  // rows are not whole heads.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<RotatedTensor>& rotated,
                                                            int32_t rotary_dim);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override {
    return stored_->CodesOf(StoredOf(tensor));
  }
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string WhyNoCodes(const TensorInfo& tensor) const override { return stored_->WhyNoCodes(StoredOf(tensor)); }
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const override;

 private:
  struct Entry {
    TensorInfo info;  // with a file_index of its own: no two of these are read with one call
    const TensorInfo* stored;
    int64_t block_rows;
    int64_t first;
  };
  RotaryRows(std::unique_ptr<TensorSource> stored, int32_t rotary_dim)
      : stored_(std::move(stored)), rotary_dim_(rotary_dim) {}
  const Entry* EntryOf(const TensorInfo& tensor) const;
  // The tensor of stored_ that a tensor of this source is, or has the rows of.
  const TensorInfo& StoredOf(const TensorInfo& tensor) const;
  // Where a row of a block is stored in the block.
  int64_t StoredRow(const Entry& entry, int64_t row) const;

  const std::unique_ptr<TensorSource> stored_;
  const int64_t rotary_dim_;
  std::vector<Entry> entries_;                            // by file_index
  std::unordered_map<std::string_view, size_t> by_name_;  // indices of entries_
};

}  // namespace dunlin::engine
