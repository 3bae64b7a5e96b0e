// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/attention_reference.h"

#include <algorithm>
#include <cmath>

namespace dunlin::tools::bench {

void AppendSamples(const AttentionRow& row, std::span<const float> actual, std::vector<Sample>* samples) {
  std::vector<double> weights(static_cast<size_t>(row.num_keys));
  double largest = -INFINITY;
  double largest_terms = 0.0;
  for (int32_t j = 0; j < row.num_keys; ++j) {
    const float* key = row.keys + j * row.stride;
    double score = 0.0;
    double terms = 0.0;
    for (int32_t d = 0; d < row.head_dim; ++d) {
      const double product = static_cast<double>(row.query[d]) * static_cast<double>(key[d]);
      score += product;
      terms += std::abs(product);
    }
    score *= row.scale;
    if (row.softcap > 0.0) score = row.softcap * std::tanh(score / row.softcap);
    score += row.slope * (j + 1 - row.num_keys);
    weights[static_cast<size_t>(j)] = score;
    largest = std::max(largest, score);
    largest_terms = std::max(largest_terms, terms * row.scale);
  }
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  std::vector<double> exact(static_cast<size_t>(row.v_head_dim == 0 ? row.head_dim : row.v_head_dim));
  std::vector<double> magnitude(exact.size());
  for (int32_t j = 0; j < row.num_keys; ++j) {
    const float* value = row.values + j * row.stride;
    const double weight = weights[static_cast<size_t>(j)] / sum;
    for (size_t d = 0; d < exact.size(); ++d) {
      exact[d] += weight * static_cast<double>(value[d]);
      magnitude[d] += weight * std::abs(static_cast<double>(value[d]));
    }
  }
  for (size_t d = 0; d < exact.size(); ++d) {
    samples->push_back({static_cast<double>(actual[d]), exact[d], magnitude[d] * (1.0 + 2.0 * largest_terms)});
  }
}

double RelativeBound(kernels::DType dtype) {
  switch (dtype) {
    case kernels::DType::kF32:
      return 0x1p-20;
    case kernels::DType::kF16:
      return 0x1p-10;
    default:
      return 0x1p-7;
  }
}

Peak PeakOf(kernels::DType dtype) {
  if (dtype == kernels::DType::kF32) return Peak::kFp32;
  return dtype == kernels::DType::kF16 ? Peak::kFp16 : Peak::kBf16;
}

double SeenPairs(int64_t num_queries, int64_t num_keys, bool causal) {
  const auto queries = static_cast<double>(num_queries);
  const auto keys = static_cast<double>(num_keys);
  return causal ? queries * (2.0 * keys - queries + 1.0) / 2.0 : queries * keys;
}

}  // namespace dunlin::tools::bench
