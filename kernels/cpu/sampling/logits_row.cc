// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/logits_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/shared/exponential.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Four lanes as a vector type of the compiler: plain loops over arrays of lanes go through memory, at a third of the
// speed.
using Floats = float __attribute__((vector_size(16)));
using Bits = int32_t __attribute__((vector_size(16)));

}  // namespace

RowPeak FindPeak(const float* logits, int32_t vocab_size) {
  Floats lane_max[kLanes / 4];
  Bits lane_good[kLanes / 4];
  for (int v = 0; v < kLanes / 4; ++v) {
    lane_max[v] = Floats{} - kInfinity;
    lane_good[v] = ~Bits{};
  }
  const int32_t whole = vocab_size / kLanes * kLanes;
  for (int32_t i = 0; i < whole; i += kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kLanes / 4; ++v) {
      Floats x;
      std::memcpy(&x, logits + i + 4 * v, sizeof(x));
      lane_max[v] = x > lane_max[v] ? x : lane_max[v];
      lane_good[v] &= x < kInfinity;  // false for NaN too
    }
  }
  float max = -kInfinity;
  bool bad = false;
  for (int lane = 0; lane < kLanes; ++lane) {
    max = std::max(max, lane_max[lane / 4][lane % 4]);
    bad |= lane_good[lane / 4][lane % 4] == 0;
  }
  for (int32_t i = whole; i < vocab_size; ++i) {
    max = logits[i] > max ? logits[i] : max;
    bad |= !(logits[i] < kInfinity);
  }
  if (bad || max == -kInfinity) return {};
  const float* first = std::find(logits, logits + vocab_size, max);
  return {.valid = true, .max = max, .argmax = static_cast<int32_t>(first - logits)};
}

double LogSumExp(const float* logits, int32_t vocab_size, float max) {
  double lane_sum[kLanes] = {};
  const int32_t whole = vocab_size / kLanes * kLanes;
  for (int32_t i = 0; i < whole; i += kLanes) {
    float e[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) e[lane] = ExpNonPositive(logits[i + lane] - max);
    for (int lane = 0; lane < kLanes; ++lane) lane_sum[lane] += static_cast<double>(e[lane]);
  }
  double sum = 0.0;
  for (double lane : lane_sum) sum += lane;
  for (int32_t i = whole; i < vocab_size; ++i) sum += static_cast<double>(ExpNonPositive(logits[i] - max));
  return static_cast<double>(max) + std::log(sum);
}

int32_t CountAtLeast(const float* logits, int32_t vocab_size, float value) {
  Bits lane_count[kLanes / 4] = {};
  const int32_t whole = vocab_size / kLanes * kLanes;
  for (int32_t i = 0; i < whole; i += kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kLanes / 4; ++v) {
      Floats x;
      std::memcpy(&x, logits + i + 4 * v, sizeof(x));
      lane_count[v] -= x >= value;  // true is -1
    }
  }
  int32_t count = 0;
  for (int lane = 0; lane < kLanes; ++lane) count += lane_count[lane / 4][lane % 4];
  for (int32_t i = whole; i < vocab_size; ++i) count += logits[i] >= value ? 1 : 0;
  return count;
}

void FindTopLogprobs(const float* logits, int32_t vocab_size, double log_sum_exp, int32_t num_top, TokenOutput* out) {
  const int32_t limit = std::min({num_top, static_cast<int32_t>(kMaxTopLogprobs), vocab_size});
  int32_t count = 0;
  // A sorted list of at most twenty by insertion: after the first few hundred tokens few pass the first test.
  for (int32_t id = 0; limit > 0 && id < vocab_size; ++id) {
    const float x = logits[id];
    if (count == limit && !(x > out->top[static_cast<size_t>(limit - 1)].logprob)) continue;
    int32_t slot = count < limit ? count++ : limit - 1;
    for (; slot > 0 && x > out->top[static_cast<size_t>(slot - 1)].logprob; --slot) {
      out->top[static_cast<size_t>(slot)] = out->top[static_cast<size_t>(slot - 1)];
    }
    out->top[static_cast<size_t>(slot)] = {.token_id = id, .logprob = x};
  }
  for (int32_t i = 0; i < count; ++i) {
    TopLogprob& top = out->top[static_cast<size_t>(i)];
    top.logprob = static_cast<float>(static_cast<double>(top.logprob) - log_sum_exp);
  }
  out->num_top = count;
}

}  // namespace dunlin::kernels::cpu
