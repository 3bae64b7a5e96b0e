// SPDX-License-Identifier: Apache-2.0
// The causal convolution: one thread has one channel of some consecutive rows of a sequence. Only rows before the
// call's first read the state, so the rows of a call are divided among threads, which changes no bit: each output is
// one chain over the taps, the oldest row first. The last rows of its inputs stay in registers.
#pragma once

#include "kernels/api/recurrent.h"
#include "kernels/cuda/ops/row_sources.h"

namespace dunlin::kernels::cuda {

inline constexpr int kConvThreads = 128;  // of a block, which has as many channels
inline constexpr int kConvRows = 8;       // whose inputs a thread loads at once
static_assert(kConvRows >= kConvTapsMax - 1, "the first rows alone read the state");

// How a launch is divided: blocks over sequences and channels, each this many times over the rows of its sequence.
struct ConvPlan {
  int32_t parts;    // of the channels of a sequence
  int32_t workers;  // of the rows
};

// The lengths of sequences lie on the device: where sequences and channels leave multiprocessors idle, rows are
// divided whatever their number, and workers without rows end at once.
inline ConvPlan ConvPlanOf(const CausalConvParams& params, int32_t multiprocessors) {
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  constexpr int64_t kWorkersMax = 64;
  const int64_t parts = (params.channels + kConvThreads - 1) / kConvThreads;
  const int64_t workers = multiprocessors * kBlocksPerMultiprocessor / (parts * params.num_sequences);
  return {static_cast<int32_t>(parts), static_cast<int32_t>(workers < 1             ? 1
                                                            : workers > kWorkersMax ? kWorkersMax
                                                                                    : workers)};
}

// A channel of a sequence.
struct ConvChannel {
  const CausalConvParams& params;
  SequenceSpan span;
  int64_t channel;
  float* state;                // row 0 of the channel's
  int32_t skip;                // kConvTapsMax - taps: of the widest window's rows, those that are not read
  float weight[kConvTapsMax];  // from `skip` on
  float bias;

  DUNLIN_DEVICE ConvChannel(const CausalConvParams& of, int64_t sequence, int64_t at)
      : params(of),
        span(of.sequences[sequence]),
        channel(at),
        state(of.state.pool + of.state.slots[sequence] * of.state.slot_stride + at),
        skip(kConvTapsMax - of.taps),
        bias(of.bias == nullptr ? 0.0F : of.bias[at]) {
    DUNLIN_UNROLL
    for (int i = 0; i < kConvTapsMax; ++i) {
      weight[i] = i < skip ? 0.0F : of.weight[(i - skip) * int64_t{of.channels} + at];
    }
  }

  // Of row `row` of the call; -1 is the state's last one. REQUIRES: 1 - taps <= row < query_len.
  DUNLIN_DEVICE float Input(int32_t row) const {
    if (row < 0) {
      return span.first_position == 0 ? 0.0F : state[(row + params.taps - 1) * int64_t{params.channels}];
    }
    const int64_t at = (int64_t{span.query_start} + row) * params.in_stride + channel;
    const float value = params.in[at];
    return params.in_gate == nullptr ? value : value * params.in_gate[at];
  }

  // window: the inputs of kConvTapsMax rows that end with `row`.
  DUNLIN_DEVICE void Output(const float* window, int32_t row) const {
    float sum = 0.0F;
    DUNLIN_UNROLL
    for (int i = 0; i < kConvTapsMax; ++i) {
      if (i >= skip) sum = fmaf(weight[i], window[i], sum);
    }
    sum += bias;
    if (params.silu) sum = ApplyActivation(ActivationKind::kSilu, sum);
    const int64_t at = int64_t{span.query_start} + row;
    if (params.out_gate != nullptr) sum *= params.out_gate[at * params.in_stride + channel];
    params.out[at * params.channels + channel] = sum;
  }

  // Rows [begin, end) of the call.
  DUNLIN_DEVICE void Convolve(int32_t begin, int32_t end) const {
    constexpr int kBefore = kConvTapsMax - 1;
    float window[kBefore + kConvRows];
    DUNLIN_UNROLL
    for (int i = 0; i < kBefore; ++i) window[i] = i < skip ? 0.0F : Input(begin + i - kBefore);
    DUNLIN_NO_UNROLL
    for (int32_t first = begin; first < end; first += kConvRows) {
      DUNLIN_UNROLL
      for (int i = 0; i < kConvRows; ++i) window[kBefore + i] = first + i < end ? Input(first + i) : 0.0F;
      DUNLIN_UNROLL
      for (int i = 0; i < kConvRows; ++i) {
        if (first + i < end) Output(window + i, first + i);
      }
      DUNLIN_UNROLL
      for (int i = 0; i < kBefore; ++i) window[i] = window[i + kConvRows];
    }
  }

  // The last rows, of the state and the call, become the state's.
  DUNLIN_DEVICE void KeepLastRows() const {
    float kept[kConvTapsMax];
    DUNLIN_UNROLL
    for (int i = 1; i < kConvTapsMax; ++i) {
      if (i > skip) kept[i] = Input(span.query_len + i - kConvTapsMax);
    }
    DUNLIN_UNROLL
    for (int i = 1; i < kConvTapsMax; ++i) {
      if (i > skip) state[(i - 1 - skip) * int64_t{params.channels}] = kept[i];
    }
  }
};

// A channel's rows that worker `worker` of `workers` has; the first one's include those that read the state, which it
// then writes.
DUNLIN_DEVICE void ConvolveShare(const CausalConvParams& params, int64_t sequence, int64_t channel, int32_t worker,
                                 int32_t workers) {
  const int64_t length = params.sequences[sequence].query_len;
  const int64_t share = RoundUpTo((length + workers - 1) / workers, kConvRows);
  const int64_t begin = worker * share;
  if (begin >= length) return;
  const ConvChannel rows(params, sequence, channel);
  rows.Convolve(static_cast<int32_t>(begin), static_cast<int32_t>(begin + share < length ? begin + share : length));
  if (worker == 0) rows.KeepLastRows();
}

}  // namespace dunlin::kernels::cuda
