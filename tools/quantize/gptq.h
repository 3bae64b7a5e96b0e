// SPDX-License-Identifier: Apache-2.0
// GPTQ: codes of a weight matrix that keep its products with observed inputs, not its elements, close. Columns are
// rounded one after the other, and the error of each is taken up by those that follow.
// Source: Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers",
// algorithm 1. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/quantize/group_codes.h"

namespace dunlin::engine {

// What the inputs of a linear operation say of its columns: shared by all weights that take the same inputs.
class GptqFactor {
 public:
  // moments: [columns, columns], the sum of x x^T over the inputs x; destroyed. by_activity: columns are rounded in
  // descending order of their inputs' energy, and groups keep their places (compressed-tensors' actorder "weight").
  // A hundredth of the mean energy is added to every column's, more where that doesn't make the matrix positive
  // definite. INVALID_ARGUMENT when a moment is not finite. Takes about columns^3 * 8 / 3 operations in FP32.
  static absl::StatusOr<GptqFactor> Of(std::vector<float> moments, int64_t columns, bool by_activity);

  int64_t columns() const { return static_cast<int64_t>(order_.size()); }

  // values: [rows, columns] FP32, finite; destroyed. Rows are independent of each other; num_threads share them.
  // REQUIRES: layout.group divides columns.
  CodedMatrix Quantize(const CodeLayout& layout, std::vector<float> values, int64_t rows, int num_threads) const;

 private:
  GptqFactor() = default;

  std::vector<int64_t> order_;  // the column of each step
  std::vector<bool> idle_;      // [columns]: its input was always 0, so that its weight does not matter
  std::vector<float> inverse_;  // [columns, columns] by step, upper: U with U^T U the inverse of the moments
  bool by_activity_ = false;
};

}  // namespace dunlin::engine
