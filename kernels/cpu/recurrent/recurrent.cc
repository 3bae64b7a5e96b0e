// SPDX-License-Identifier: Apache-2.0
// Launchers of recurrent layers but the scans. A convolution is cut by sequences and channels.
#include "kernels/cpu/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/context/row_tasks.h"
#include "kernels/cpu/recurrent/scan_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kConvChannels = 256;  // of a task: a row of them is 1 KiB

// Channels [first, first + count) of a sequence's rows of u: those of the call, row 0 and on, and of its state before.
class ConvInput {
 public:
  ConvInput(const KernelTable& kernels, const CausalConvParams& params, const SequenceSpan& span, int64_t first,
            int64_t count, float* state)
      : kernels_(kernels), params_(params), span_(span), first_(first), count_(count), state_(state + first) {}

  // Call with ascending rows; what it returned of the last `taps` rows stays valid.
  const float* Row(int64_t row) {
    if (row < 0) return State(row + params_.taps - 1);
    const int64_t at = (span_.query_start + row) * params_.in_stride + first_;
    if (params_.in_gate == nullptr) return params_.in + at;
    float* product = products_[row % params_.taps];
    if (row == num_products_) {
      kernels_.multiply_rows(params_.in + at, params_.in_gate + at, count_, product);
      ++num_products_;
    }
    return product;
  }

  // Row `row` of the state.
  float* State(int64_t row) { return state_ + row * params_.channels; }

 private:
  const KernelTable& kernels_;
  const CausalConvParams& params_;
  const SequenceSpan& span_;
  const int64_t first_;
  const int64_t count_;
  float* const state_;
  int64_t num_products_ = 0;
  float products_[kConvTapsMax][kConvChannels];  // of the last rows
};

// Channels [first, first + count) of a sequence.
void ConvolveChannels(const KernelTable& kernels, const CausalConvParams& params, const SequenceSpan& span,
                      int64_t first, int64_t count, float* state) {
  const int64_t num_kept = params.taps - 1;
  ConvInput in(kernels, params, span, first, count, state);
  for (int64_t row = 0; span.first_position == 0 && row < num_kept; ++row) std::fill_n(in.State(row), count, 0.0F);
  ConvRow conv{};
  conv.weight = params.weight + first;
  conv.bias = params.bias == nullptr ? nullptr : params.bias + first;
  conv.weight_stride = params.channels;
  conv.num_taps = params.taps;
  conv.num_channels = static_cast<int32_t>(count);
  for (int64_t row = 0; row < span.query_len; ++row) {
    for (int64_t tap = 0; tap < params.taps; ++tap) conv.taps[tap] = in.Row(row + tap - num_kept);
    conv.out = params.out + (span.query_start + row) * params.channels + first;
    kernels.conv_row(conv);
    if (params.silu) kernels.activate(ActivationKind::kSilu, conv.out, nullptr, count, conv.out);
    if (params.out_gate == nullptr) continue;
    const float* gate = params.out_gate + (span.query_start + row) * params.in_stride + first;
    kernels.multiply_rows(conv.out, gate, count, conv.out);
  }
  // The last rows, of the state and the call, are the state's.
  for (int64_t row = 0; row < num_kept; ++row) {
    std::memmove(in.State(row), in.Row(row + span.query_len - num_kept), static_cast<size_t>(count) * sizeof(float));
  }
}

// One gate for `width` columns each.
void GateGroups(const float* gate, const RowGateParams& params, float* values) {
  for (int64_t group = 0; group < params.columns / params.width; ++group) {
    const float factor = 1.0F / (1.0F + std::exp(-gate[group]));
    float* const of_group = values + group * params.width;
    for (int64_t i = 0; i < params.width; ++i) of_group[i] *= factor;
  }
}

}  // namespace

KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params) {
  if (params.num_sequences < 0 || params.channels < 1 || params.taps < 2 || params.taps > kConvTapsMax ||
      params.in_stride < params.channels) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.num_sequences == 0) return KernelStatus::kOk;
  if (params.in == nullptr || params.weight == nullptr || params.sequences == nullptr || params.out == nullptr ||
      !ValidState(params.state, int64_t{params.taps - 1} * params.channels)) {
    return KernelStatus::kInvalidArgument;
  }
  const int64_t parts = (params.channels + kConvChannels - 1) / kConvChannels;
  context->pool.Run(params.num_sequences * parts, [&](int64_t task, int) {
    const int64_t sequence = task / parts;
    const int64_t first = task % parts * kConvChannels;
    float* state = params.state.pool + params.state.slots[sequence] * params.state.slot_stride;
    ConvolveChannels(context->kernels, params, params.sequences[sequence], first,
                     std::min<int64_t>(kConvChannels, params.channels - first), state);
  });
  return KernelStatus::kOk;
}

KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params) {
  if (params.num_rows < 0 || params.num_groups < 1 || params.columns < 1 || !(params.epsilon > 0.0F) ||
      params.gate_stride < int64_t{params.num_groups} * params.columns || params.weight_stride < 0 ||
      (params.sigmoid_gate && params.gate_first)) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (params.in == nullptr || params.gate == nullptr || params.weight == nullptr || params.out == nullptr) {
    return KernelStatus::kInvalidArgument;
  }
  const KernelTable& kernels = context->kernels;
  const int64_t columns = params.columns;
  const int64_t width = params.num_groups * columns;
  ForEachRow(context, params.num_rows, width, [&](int64_t row) {
    const int64_t source = params.rows == nullptr ? row : params.rows[row];
    for (int64_t group = 0; group < params.num_groups; ++group) {
      const float* in = params.in + source * width + group * columns;
      float* out = params.out + row * width + group * columns;
      const float* gate = params.gate + source * params.gate_stride + group * columns;
      if (params.gate_first) kernels.activate(ActivationKind::kSilu, gate, in, columns, out);
      const float* normed = params.gate_first ? out : in;
      const NormMoments moments = kernels.norm_moments(NormKind::kRmsNorm, normed, columns, params.epsilon);
      kernels.normalize(normed, moments, params.weight + group * params.weight_stride, nullptr, columns, out);
      if (params.sigmoid_gate) {
        kernels.sigmoid_gate(gate, columns, out);
      } else if (!params.gate_first) {
        kernels.activate(ActivationKind::kSilu, gate, out, columns, out);
      }
    }
  });
  return KernelStatus::kOk;
}

KernelStatus RowGate(DeviceContext* context, const RowGateParams& params) {
  if (params.num_rows < 0 || params.columns < 1) return KernelStatus::kInvalidArgument;
  if (params.width < 1 || params.columns % params.width != 0) return KernelStatus::kInvalidArgument;
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (params.values == nullptr || params.gate == nullptr) return KernelStatus::kInvalidArgument;
  const int64_t columns = params.columns;
  ForEachRow(context, params.num_rows, columns, [&](int64_t row) {
    const int64_t source = params.rows == nullptr ? row : params.rows[row];
    const float* gate = params.gate + source * (columns / params.width);
    float* values = params.values + row * columns;
    if (params.width > 1) return GateGroups(gate, params, values);
    context->kernels.sigmoid_gate(gate, columns, values);
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
