// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/pooling.h"

#include <algorithm>
#include <cmath>

namespace dunlin::engine {
namespace {

constexpr double kMinLength = 1e-12;

void Mean(const float* rows, int32_t num_rows, int32_t hidden_dim, BatchInput* input, double* sums) {
  const auto dimensions = static_cast<size_t>(input->dimensions);
  std::fill_n(sums, dimensions, 0.0);
  for (int32_t row = 0; row < num_rows; ++row) {
    const float* values = rows + static_cast<int64_t>(row) * hidden_dim;
    for (size_t i = 0; i < dimensions; ++i) sums[i] += static_cast<double>(values[i]);
  }
  for (size_t i = 0; i < dimensions; ++i) input->vector[i] = static_cast<float>(sums[i] / num_rows);
}

void Normalize(float* vector, int32_t dimensions) {
  double squares = 0.0;
  for (int32_t i = 0; i < dimensions; ++i) squares += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
  const double length = std::max(std::sqrt(squares), kMinLength);
  for (int32_t i = 0; i < dimensions; ++i) vector[i] = static_cast<float>(static_cast<double>(vector[i]) / length);
}

}  // namespace

void PoolRows(const float* rows, int32_t num_rows, int32_t hidden_dim, BatchInput* input, std::vector<double>* sums) {
  switch (input->pooling) {
    case Pooling::kMean:
      Mean(rows, num_rows, hidden_dim, input, sums->data());
      break;
    case Pooling::kCls:
      std::copy_n(rows, input->dimensions, input->vector);
      break;
    case Pooling::kLast:
      std::copy_n(rows + static_cast<int64_t>(num_rows - 1) * hidden_dim, input->dimensions, input->vector);
      break;
  }
  input->finite =
      std::all_of(input->vector, input->vector + input->dimensions, [](float v) { return std::isfinite(v); });
  if (input->normalize && input->finite) Normalize(input->vector, input->dimensions);
}

}  // namespace dunlin::engine
