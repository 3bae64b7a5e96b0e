// SPDX-License-Identifier: Apache-2.0
// The sums of a row go through its elements in one order, whatever other rows the call has.
#include "kernels/cpu/residual_streams.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/context/row_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kLanes = 16;  // partial sums

float MeanSquare(const float* values, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] * values[i + lane];
  }
  for (; i < count; ++i) sums[i % kLanes] += values[i] * values[i];
  double sum = 0.0;
  for (const float part : sums) sum += part;
  return static_cast<float>(sum / static_cast<double>(count));
}

float StreamSigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

// values: a row of the matrix.
void SoftmaxRow(float* values, int32_t count, float epsilon) {
  const float largest = *std::max_element(values, values + count);
  float sum = 0.0F;
  for (int32_t i = 0; i < count; ++i) sum += values[i] = std::exp(values[i] - largest);
  for (int32_t i = 0; i < count; ++i) values[i] = values[i] / sum + epsilon;
}

// Divides the elements of each line by their sum; those of a line are `step` apart, the lines line_step.
void DivideBySums(float* matrix, int32_t count, int32_t line_step, int32_t step, float epsilon) {
  for (int32_t line = 0; line < count; ++line) {
    float* values = matrix + line * line_step;
    float sum = epsilon;
    for (int32_t i = 0; i < count; ++i) sum += values[i * step];
    for (int32_t i = 0; i < count; ++i) values[i * step] /= sum;
  }
}

// mixed: of the numbers after `pre`.
void WriteWeights(const ReadStreamsParams& params, const float* mixed, float* weights) {
  const int32_t count = params.num_streams;
  const float* base = params.base + count;
  for (int32_t i = 0; i < count; ++i) weights[i] = 2.0F * StreamSigmoid(mixed[i] * params.scale[1] + base[i]);
  float* matrix = weights + count;
  for (int32_t i = 0; i < count * count; ++i) matrix[i] = mixed[count + i] * params.scale[2] + base[count + i];
  for (int32_t i = 0; i < count; ++i) SoftmaxRow(matrix + i * count, count, params.epsilon);
  DivideBySums(matrix, count, 1, count, params.epsilon);
  for (int32_t i = 1; i < params.iterations; ++i) {
    DivideBySums(matrix, count, count, 1, params.epsilon);
    DivideBySums(matrix, count, 1, count, params.epsilon);
  }
}

void ReadRow(const ReadStreamsParams& params, int64_t row) {
  constexpr int32_t kMixesMax = kStreamsMax + StreamWeights(kStreamsMax);
  const int32_t count = params.num_streams;
  const int64_t columns = params.hidden_dim;
  const float* streams = params.streams + row * count * columns;
  const int32_t num_mixes = count + (params.weights == nullptr ? 0 : StreamWeights(count));
  const float norm = 1.0F / std::sqrt(MeanSquare(streams, count * columns) + params.norm_epsilon);
  float mixed[kMixesMax];
  for (int32_t i = 0; i < num_mixes; ++i) mixed[i] = params.mixes[row * num_mixes + i] * norm;
  float* out = params.out + row * columns;
  for (int32_t i = 0; i < count; ++i) {
    const float weight = StreamSigmoid(mixed[i] * params.scale[0] + params.base[i]) + params.epsilon;
    const float* stream = streams + i * columns;
    if (i == 0) {
      for (int64_t column = 0; column < columns; ++column) out[column] = weight * stream[column];
    } else {
      for (int64_t column = 0; column < columns; ++column) out[column] += weight * stream[column];
    }
  }
  if (params.weights != nullptr) WriteWeights(params, mixed + count, params.weights + row * StreamWeights(count));
}

void WriteRow(const WriteStreamsParams& params, int64_t row) {
  constexpr int64_t kBlock = 256;  // columns, whose old values are kept
  const int32_t count = params.num_streams;
  const float* weights = params.weights + row * StreamWeights(count);
  const float* matrix = weights + count;
  float* streams = params.streams + row * count * params.hidden_dim;
  const float* output = params.output + row * params.hidden_dim;
  for (int64_t first = 0; first < params.hidden_dim; first += kBlock) {
    const int64_t columns = std::min<int64_t>(kBlock, params.hidden_dim - first);
    float old[kStreamsMax][kBlock];
    for (int32_t j = 0; j < count; ++j) std::copy_n(streams + j * int64_t{params.hidden_dim} + first, columns, old[j]);
    for (int32_t i = 0; i < count; ++i) {
      float* stream = streams + i * int64_t{params.hidden_dim} + first;
      for (int64_t c = 0; c < columns; ++c) stream[c] = weights[i] * output[first + c];
      for (int32_t j = 0; j < count; ++j) {
        const float share = matrix[j * count + i];
        for (int64_t c = 0; c < columns; ++c) stream[c] += share * old[j][c];
      }
    }
  }
}

bool ValidStreams(int32_t num_rows, int32_t num_streams, int32_t hidden_dim) {
  return num_rows >= 0 && num_streams >= 1 && num_streams <= kStreamsMax && hidden_dim > 0;
}

}  // namespace

KernelStatus ReadStreams(DeviceContext* context, const ReadStreamsParams& params) {
  if (!ValidStreams(params.num_rows, params.num_streams, params.hidden_dim) || !(params.norm_epsilon > 0.0F) ||
      (params.weights != nullptr && params.iterations < 1)) {
    return KernelStatus::kInvalidArgument;
  }
  const int64_t work = 2 * int64_t{params.num_streams} * params.hidden_dim;
  ForEachRow(context, params.num_rows, work, [&](int64_t row) { ReadRow(params, row); });
  return KernelStatus::kOk;
}

KernelStatus WriteStreams(DeviceContext* context, const WriteStreamsParams& params) {
  if (!ValidStreams(params.num_rows, params.num_streams, params.hidden_dim)) return KernelStatus::kInvalidArgument;
  const int64_t work = int64_t{params.num_streams} * params.num_streams * params.hidden_dim;
  ForEachRow(context, params.num_rows, work, [&](int64_t row) { WriteRow(params, row); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
