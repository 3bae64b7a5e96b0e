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
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"

namespace dunlin::engine {

// A tensor whose rows change places: of each block of block_rows rows those from `first` on, rotary_dim of them.
struct RotatedTensor {
  std::string name;
  int64_t block_rows;  // of a head
  int64_t first;
};

class RotaryRows final : public DerivedTensors {
 public:
  // rotated: weights [heads * block_rows, columns] and biases; of a tensor that several parts share the first entry
  // counts, those that `stored` does not have are left to whoever
  // looks for them. 0 < rotary_dim <= block_rows - first, even. Errors: INVALID_ARGUMENT where a tensor is FP8 or its
  // rows are not whole heads.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const std::vector<RotatedTensor>& rotated,
                                                            int32_t rotary_dim);

 private:
  struct Block {
    int64_t rows;
    int64_t first;
  };
  RotaryRows(std::unique_ptr<TensorSource> stored, int32_t rotary_dim)
      : DerivedTensors(std::move(stored)), rotary_dim_(rotary_dim) {}
  absl::Status Add(const RotatedTensor& rotated);
  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  std::optional<kernels::CodeTraits> DerivedCodes(size_t index) const override {
    return stored().CodesOf(Source(index));
  }
  absl::Status ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string WhyNoDerivedCodes(size_t index) const override { return stored().WhyNoCodes(Source(index)); }
  // Where a row of a block is stored in the block.
  int64_t StoredRow(const Block& block, int64_t row) const;

  const int64_t rotary_dim_;
  std::vector<Block> blocks_;  // of the derived tensors
};

}  // namespace dunlin::engine
