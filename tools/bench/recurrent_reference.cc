// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/recurrent_reference.h"

#include <algorithm>
#include <cmath>

namespace dunlin::tools::bench {
namespace {

using kernels::kStateLanes;
using kernels::SequenceSpan;

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double Softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

// A column of a head's state: zeros before position 0.
std::vector<double> StateColumn(const float* head, const SequenceSpan& span, int64_t rows, int64_t column) {
  std::vector<double> state(static_cast<size_t>(rows), 0.0);
  if (span.first_position == 0) return state;
  const float* block = head + column / kStateLanes * kStateLanes * rows + column % kStateLanes;
  for (int64_t i = 0; i < rows; ++i) state[static_cast<size_t>(i)] = static_cast<double>(block[i * kStateLanes]);
  return state;
}

double Length(const float* values, int64_t count) {
  double squares = 0.0;
  for (int64_t i = 0; i < count; ++i) squares += std::pow(static_cast<double>(values[i]), 2);
  return std::sqrt(squares + 1e-6);
}

}  // namespace

std::vector<RecurrentSum> ExactDeltaColumn(const kernels::DeltaScanParams& params, int32_t sequence, int32_t head,
                                           int32_t column) {
  const kernels::DeltaShape& shape = params.shape;
  const SequenceSpan& span = params.sequences[sequence];
  const float* slot = params.state.pool + params.state.slots[sequence] * params.state.slot_stride;
  std::vector<double> state = StateColumn(slot + head * DeltaHeadFloats(shape), span, shape.key_dim, column);
  const int64_t key_head = shape.tiled_values ? head % shape.key_heads : head / (shape.value_heads / shape.key_heads);
  std::vector<RecurrentSum> sums;
  for (int64_t row = span.query_start; row < int64_t{span.query_start} + span.query_len; ++row) {
    const float* query = params.in + row * shape.channels() + key_head * shape.key_dim;
    const float* key = query + int64_t{shape.key_heads} * shape.key_dim;
    const float* values = params.in + row * shape.channels() + 2 * int64_t{shape.key_heads} * shape.key_dim;
    const double value = static_cast<double>(values[int64_t{head} * shape.value_dim + column]);
    const float* gates = params.gates + 2 * row * shape.value_heads + head;
    const double step = Softplus(static_cast<double>(gates[shape.value_heads]) + params.dt_bias[head]);
    const double decay = std::exp(-static_cast<double>(params.rate[head]) * step);
    const double key_length = Length(key, shape.key_dim);
    const double query_length = Length(query, shape.key_dim) * std::sqrt(static_cast<double>(shape.key_dim));
    double stored = 0.0;
    for (int64_t i = 0; i < shape.key_dim; ++i) {
      state[static_cast<size_t>(i)] *= decay;
      stored += state[static_cast<size_t>(i)] * static_cast<double>(key[i]) / key_length;
    }
    const double update = Sigmoid(static_cast<double>(gates[0])) * (value - stored) / key_length;
    RecurrentSum sum = {0.0, 0.0};
    for (int64_t i = 0; i < shape.key_dim; ++i) {
      state[static_cast<size_t>(i)] += static_cast<double>(key[i]) * update;
      const double term = state[static_cast<size_t>(i)] * static_cast<double>(query[i]) / query_length;
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
    sums.push_back(sum);
  }
  return sums;
}

std::vector<RecurrentSum> ExactSsmColumn(const kernels::SsmScanParams& params, int32_t sequence, int32_t head,
                                         int32_t column) {
  const kernels::SsmShape& shape = params.shape;
  const SequenceSpan& span = params.sequences[sequence];
  const float* slot = params.state.pool + params.state.slots[sequence] * params.state.slot_stride;
  std::vector<double> state = StateColumn(slot + head * SsmHeadFloats(shape), span, shape.state_dim, column);
  const int64_t group = head / (shape.num_heads / shape.num_groups);
  std::vector<RecurrentSum> sums;
  for (int64_t row = span.query_start; row < int64_t{span.query_start} + span.query_len; ++row) {
    const float* in = params.in + row * shape.channels();
    const double x = static_cast<double>(in[int64_t{head} * shape.head_dim + column]);
    const float* b = in + shape.features() + group * shape.state_dim;
    const float* c = b + int64_t{shape.num_groups} * shape.state_dim;
    const double raw = static_cast<double>(params.step[row * params.step_stride + head]) + params.step_bias[head];
    const double step = std::clamp<double>(Softplus(raw), params.step_min, params.step_max);
    const double decay = std::exp(-static_cast<double>(params.rate[head]) * step);
    const double skipped = static_cast<double>(params.skip[head]) * x;
    RecurrentSum sum = {skipped, std::fabs(skipped)};
    for (int64_t i = 0; i < shape.state_dim; ++i) {
      double& element = state[static_cast<size_t>(i)];
      element = decay * element + step * x * static_cast<double>(b[i]);
      sum.value += element * static_cast<double>(c[i]);
      sum.magnitude += std::fabs(element * static_cast<double>(c[i]));
    }
    sums.push_back(sum);
  }
  return sums;
}

std::vector<RecurrentSum> ExactConvChannel(const kernels::CausalConvParams& params, int32_t sequence, int32_t channel) {
  const SequenceSpan& span = params.sequences[sequence];
  const float* state = params.state.pool + params.state.slots[sequence] * params.state.slot_stride + channel;
  const auto input = [&](int64_t row) {
    if (row >= 0) return static_cast<double>(params.in[(span.query_start + row) * params.in_stride + channel]);
    return span.first_position == 0 ? 0.0 : static_cast<double>(state[(row + params.taps - 1) * params.channels]);
  };
  std::vector<RecurrentSum> sums;
  for (int64_t row = 0; row < span.query_len; ++row) {
    double sum = params.bias == nullptr ? 0.0 : static_cast<double>(params.bias[channel]);
    double magnitude = std::fabs(sum);
    for (int64_t tap = 0; tap < params.taps; ++tap) {
      const double weight = static_cast<double>(params.weight[tap * params.channels + channel]);
      const double term = weight * input(row - params.taps + 1 + tap);
      sum += term;
      magnitude += std::fabs(term);
    }
    sums.push_back({params.silu ? sum * Sigmoid(sum) : sum, magnitude});
  }
  return sums;
}

}  // namespace dunlin::tools::bench
