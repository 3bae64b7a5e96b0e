// SPDX-License-Identifier: Apache-2.0
// What the tests of recurrent layers' operations share: calls of several sequences, and rows of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/api/recurrent.h"

namespace dunlin::kernels::testing_recurrent {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Row-major [rows, columns] of normal numbers.
inline std::vector<float> RandomMatrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (float& value : values) value = normal(generator);
  return values;
}

// Sequences one after another in one call: their spans, and a slot of each from the last one on.
struct Batch {
  std::vector<SequenceSpan> spans;
  std::vector<int32_t> slots;
};
inline Batch BatchOf(const std::vector<std::pair<int32_t, int32_t>>& first_and_count) {
  Batch batch;
  int32_t row = 0;
  for (const auto& [first, count] : first_and_count) {
    batch.spans.push_back({.query_start = row, .query_len = count, .first_position = first, .page_table_row = 0});
    batch.slots.push_back(static_cast<int32_t>(first_and_count.size() - batch.slots.size()) - 1);
    row += count;
  }
  return batch;
}

inline std::vector<float> Rows(const std::vector<float>& all, int64_t columns, int64_t first, int64_t count) {
  return {all.begin() + first * columns, all.begin() + (first + count) * columns};
}
inline void Append(std::vector<float>* to, const std::vector<float>& from) {
  to->insert(to->end(), from.begin(), from.end());
}

inline double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

}  // namespace dunlin::kernels::testing_recurrent
