// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mamba_layer.h"

#include "engine/layers/layer_state.h"

namespace dunlin::engine {

using kernels::DeviceOps;

MambaLayer::MambaLayer(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.mamba),
      spec_(context->config.mamba),
      buffers_(PlaceMambaBuffers(context->config, context->buffers.max_tokens, context->buffers.mamba)) {}

Linear MambaLayer::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.mamba.in, InputIndex(layer, LayerInput::kQkv)};
}

bool MambaLayer::StoreKv() const {
  const Linear input = InputOf(context_, layer_, context_->layer);
  return input.Run("mamba in", nullptr, context_->buffers.qkv, context_->rows.count) &&
         ForEachStatePart(context_, [this](const StatePart& part) { return Convolve(part) && Scan(part); });
}

bool MambaLayer::Convolve(const StatePart& part) const {
  const kernels::CausalConvParams params{.in = context_->buffers.qkv + spec_.output_features(),
                                         .in_stride = spec_.input_features(),
                                         .weight = weights_.conv,
                                         .channels = spec_.channels(),
                                         .taps = spec_.conv_taps,
                                         .state = StateOf(*context_, part),
                                         .sequences = part.spans,
                                         .num_sequences = part.count,
                                         .out = buffers_.mixed,
                                         .bias = weights_.conv_bias};
  return context_->Run(&DeviceOps::causal_conv, params, "causal convolution");
}

bool MambaLayer::Scan(const StatePart& part) const {
  const float* steps = context_->buffers.qkv + spec_.output_features() + spec_.channels();
  const kernels::SsmScanParams params{.shape = spec_.shape,
                                      .in = buffers_.mixed,
                                      .step = steps,
                                      .step_stride = spec_.input_features(),
                                      .rate = weights_.rate,
                                      .step_bias = weights_.time_bias,
                                      .skip = weights_.skip,
                                      .step_min = spec_.step_min,
                                      .step_max = spec_.step_max,
                                      .state = StateOf(*context_, part, spec_.conv_state_floats()),
                                      .sequences = part.spans,
                                      .num_sequences = part.count,
                                      .out = buffers_.scan};
  return context_->Run(&DeviceOps::ssm_scan, params, "ssm scan");
}

bool MambaLayer::Run(const Linear& next) const {
  const LayerRows& rows = context_->rows;
  const int32_t group = spec_.output_features() / spec_.shape.num_groups;
  const kernels::GatedGroupNormParams params{.in = buffers_.scan,
                                             .gate = context_->buffers.qkv,
                                             .gate_stride = spec_.input_features(),
                                             .rows = rows.picked,
                                             .weight = weights_.norm,
                                             .epsilon = context_->config.norm.epsilon,
                                             .num_groups = spec_.shape.num_groups,
                                             .columns = group,
                                             .out = context_->buffers.attention,
                                             .num_rows = rows.count,
                                             .gate_first = true,
                                             .weight_stride = group};
  return context_->Run(&DeviceOps::gated_group_norm, params, "gated norm") &&
         next.Quantize("mamba quantize", params.out, rows.count);
}

}  // namespace dunlin::engine
