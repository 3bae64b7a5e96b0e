// SPDX-License-Identifier: Apache-2.0
// A checkpoint whose heads of V are narrower than those of Q and K, with zeros behind each of them: rows of the
// projection to V, and columns of the output projection, that are not stored. Products with them add exact zeros.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"

namespace dunlin::engine {

class PaddedHeads final : public DerivedTensors {
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

 private:
  // In blocks of block_bytes, of which the first stored_bytes follow each other in the stored tensor.
  struct Blocks {
    uint64_t block_bytes;
    uint64_t stored_bytes;
  };
  explicit PaddedHeads(std::unique_ptr<TensorSource> stored) : DerivedTensors(std::move(stored)) {}
  absl::Status Add(const Matrix& matrix, int64_t stored_dim, int64_t head_dim);
  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  std::string WhyNoDerivedCodes(size_t index) const override;

  std::vector<Blocks> blocks_;  // of the derived tensors
};

}  // namespace dunlin::engine
