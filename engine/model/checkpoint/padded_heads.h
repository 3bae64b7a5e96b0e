// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose heads of V are narrower than those of Q and K, with zeros behind each of them: rows of the
// projection to V, and columns of the output projection, that are not stored. Products with them add exact zeros.
#pragma once

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

class PaddedHeads final : public TensorSource {
 public:
  struct Matrix {
    std::string name;
    bool columns;  // of heads; else rows
  };
  // 0 < stored_dim < head_dim: rows or columns of a head. Matrices that `stored` does not have are left to whoever
  // looks for them. INVALID_ARGUMENT where a matrix is FP8, or not of whole heads.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<Matrix>& matrices, int64_t stored_dim,
                                                            int64_t head_dim);

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  // Of the tensors that are not padded.
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override {
    return EntryOf(tensor) == nullptr ? stored_->CodesOf(tensor) : std::nullopt;
  }
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override {
    return stored_->ReadCodes(tensor, first_row, num_rows, out);
  }
  std::string WhyNoCodes(const TensorInfo& tensor) const override {
    const Entry* entry = EntryOf(tensor);
    if (entry == nullptr) return stored_->WhyNoCodes(tensor);
    return stored_->CodesOf(*entry->stored).has_value() ? "zeros follow its heads of V"
                                                        : stored_->WhyNoCodes(*entry->stored);
  }
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override { return stored_->CheckUnchanged(); }
  std::vector<const TensorInfo*> List() const override;

 private:
  // In blocks of block_bytes, of which the first stored_bytes follow each other in the stored tensor.
  struct Entry {
    TensorInfo info;  // with a file_index of its own: no two of these are read with one call
    const TensorInfo* stored;
    uint64_t block_bytes;
    uint64_t stored_bytes;
  };
  explicit PaddedHeads(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {}
  absl::Status Add(const Matrix& matrix, int64_t stored_dim, int64_t head_dim);
  const Entry* EntryOf(const TensorInfo& tensor) const;

  const std::unique_ptr<TensorSource> stored_;
  std::vector<Entry> entries_;                            // by file_index
  std::unordered_map<std::string_view, size_t> by_name_;  // indices of entries_
};

}  // namespace dunlin::engine
