// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/short_conv.h"

#include "engine/layers/layer_state.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

Linear ShortConv::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.short_conv.in, InputIndex(layer, LayerInput::kQkv)};
}

bool ShortConv::StoreKv() const {
  const Linear input = InputOf(context_, layer_, context_->layer);
  return input.Run("short conv in", nullptr, context_->buffers.qkv, context_->rows.count) &&
         ForEachStatePart(context_, [this](const StatePart& part) { return Convolve(part); });
}

bool ShortConv::Convolve(const StatePart& part) const {
  const ShortConvSpec& spec = context_->config.short_conv;
  const LayerBuffers& buffers = context_->buffers;
  const kernels::CausalConvParams params{.in = buffers.qkv + 2 * int64_t{spec.channels},
                                         .in_stride = spec.input_features(),
                                         .weight = layer_.short_conv.conv,
                                         .channels = spec.channels,
                                         .taps = spec.taps,
                                         .state = StateOf(*context_, part),
                                         .sequences = part.spans,
                                         .num_sequences = part.count,
                                         .out = buffers.attention,
                                         .bias = layer_.short_conv.bias,
                                         .in_gate = buffers.qkv,
                                         .out_gate = buffers.qkv + spec.channels,
                                         .silu = false};
  return context_->Run(&DeviceOps::causal_conv, params, "short convolution");
}

bool ShortConv::Run(const Linear& next) const {
  const LayerRows& rows = context_->rows;
  const int32_t channels = context_->config.short_conv.channels;
  const kernels::CopyRowsParams params{.in = context_->buffers.attention,
                                       .in_stride = channels,
                                       .rows = rows.picked,
                                       .out = context_->buffers.qkv,  // which nothing reads after the convolution
                                       .num_rows = rows.count,
                                       .columns = channels};
  const auto quantize = [&](const float* of_rows) {
    const RankPart part = context_->config.part(next.columns());
    return QuantizeColumns(context_, "short conv quantize", next, ColumnsOf(of_rows, part), rows.count);
  };
  if (rows.picked == nullptr) return quantize(params.in);
  return context_->Run(&DeviceOps::copy_rows, params, "short conv rows") && quantize(params.out);
}

}  // namespace dunlin::engine
