// SPDX-License-Identifier: Apache-2.0
// Several residual streams, which each term of a layer reads as one row and writes as another (manifold-constrained
// hyper-connections; Xie et al. 2026). FP32; a row's result depends on the row alone.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

inline constexpr int32_t kStreamsMax = 8;

// Numbers of a row's mixing weights: what its output is written with, then a matrix by which streams mix.
constexpr int32_t StreamWeights(int32_t num_streams) {
  return num_streams + num_streams * num_streams;
}

// What a term reads: out = sum_i pre_i X_i. With f = mixes / sqrt(mean(X^2) + norm_epsilon) over all elements of a row:
// pre = sigmoid(f_pre scale[0] + base) + epsilon; post = 2 sigmoid(f_post scale[1] + base); C = the softmax over the
// last index of f_C scale[2] + base, plus epsilon, divided by its sums over the first index (plus epsilon), and then
// iterations - 1 times by those over the last and over the first.
struct ReadStreamsParams {
  const float* streams;  // [num_rows, num_streams, hidden_dim]
  const float* mixes;    // [num_rows, F], F = num_streams + StreamWeights(num_streams) or, without weights, num_streams
  const float* base;     // [F]
  const float* scale;    // [3] or, without weights, [1]
  float norm_epsilon;    // > 0
  float epsilon;         // >= 0
  int32_t iterations;    // > 0 with weights
  float* out;            // [num_rows, hidden_dim]
  float* weights;        // [num_rows, StreamWeights(num_streams)] post, then C; or null
  int32_t num_rows;      // >= 0
  int32_t num_streams;   // 1 to kStreamsMax
  int32_t hidden_dim;    // > 0
};

// What a term writes: X_i = post_i y + sum_j C_ji X_j, in place.
struct WriteStreamsParams {
  float* streams;        // [num_rows, num_streams, hidden_dim]
  const float* output;   // [num_rows, hidden_dim] y
  const float* weights;  // [num_rows, StreamWeights(num_streams)]
  int32_t num_rows;      // >= 0
  int32_t num_streams;   // 1 to kStreamsMax
  int32_t hidden_dim;    // > 0
};

}  // namespace dunlin::kernels
