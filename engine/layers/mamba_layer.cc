// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mamba_layer.h"

#include "engine/layers/layer_state.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Next to attention, whose rows the buffer begins with, those of the input projection come after them.
float* ProjectedRows(const LayerContext& context) {
  const LayerBuffers& buffers = context.buffers;
  if (!context.config.attends(context.layer)) return buffers.qkv;
  return buffers.qkv + int64_t{buffers.max_tokens} * context.config.attention.qkv_features();
}

}  // namespace

MambaLayer::MambaLayer(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.mamba),
      spec_(context->config.mamba),
      projected_(ProjectedRows(*context)),
      buffers_(PlaceMambaBuffers(context->config, context->buffers.max_tokens, context->buffers.mamba)) {}

Linear MambaLayer::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.mamba.in, InputIndex(layer, LayerInput::kQkv)};
}

bool MambaLayer::StoreKv() const {
  const Linear input = InputOf(context_, layer_, context_->layer);
  return input.Run("mamba in", nullptr, projected_, context_->rows.count) &&
         ForEachStatePart(context_, [this](const StatePart& part) { return Convolve(part) && Scan(part); });
}

bool MambaLayer::Convolve(const StatePart& part) const {
  const kernels::CausalConvParams params{.in = projected_ + spec_.output_features(),
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
  const float* steps = projected_ + spec_.output_features() + spec_.channels();
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

// Of all rows, so that z and the scan come next to each other by copies of columns.
bool MambaLayer::Gate(const Linear& next) const {
  const LayerRows& rows = context_->rows;
  const int32_t width = spec_.output_features();
  const int32_t count = context_->inputs.num_tokens;
  kernels::CopyColumnsParams copy{.in = projected_,
                                  .in_stride = spec_.input_features(),
                                  .in_block_stride = 0,
                                  .out = buffers_.pair,
                                  .out_stride = int64_t{2} * width,
                                  .out_block_stride = width,
                                  .num_rows = count,
                                  .num_blocks = 1,
                                  .columns = width};
  if (!context_->Run(&DeviceOps::copy_columns, copy, "mamba gate")) return false;
  copy.in = buffers_.scan;
  copy.in_stride = width;
  copy.out = buffers_.pair + width;
  kernels::Activation columns{.columns = width};
  const kernels::ActivateParams gate{.kind = kernels::ActivationKind::kSilu,
                                     .gated = true,
                                     .in = buffers_.pair,
                                     .out = &columns,
                                     .num_rows = count,
                                     .rows_out = buffers_.scan};
  if (!context_->Run(&DeviceOps::copy_columns, copy, "mamba scan") ||
      !context_->Run(&DeviceOps::activate, gate, "mamba gate")) {
    return false;
  }
  if (rows.picked == nullptr) return next.Quantize("mamba quantize", buffers_.scan, rows.count);
  const kernels::CopyRowsParams kept{.in = buffers_.scan,
                                     .in_stride = width,
                                     .rows = rows.picked,
                                     .out = context_->buffers.attention,
                                     .num_rows = rows.count,
                                     .columns = width};
  return context_->Run(&DeviceOps::copy_rows, kept, "mamba rows") &&
         next.Quantize("mamba quantize", kept.out, rows.count);
}

bool MambaLayer::Run(const Linear& next) const {
  if (spec_.norm == MambaNorm::kNone) return Gate(next);
  const LayerRows& rows = context_->rows;
  const int32_t group = spec_.output_features() / spec_.shape.num_groups;
  const kernels::GatedGroupNormParams params{.in = buffers_.scan,
                                             .gate = projected_,
                                             .gate_stride = spec_.input_features(),
                                             .rows = rows.picked,
                                             .weight = weights_.norm,
                                             .epsilon = context_->config.norm.epsilon,
                                             .num_groups = spec_.shape.num_groups,
                                             .columns = group,
                                             .out = context_->buffers.attention,
                                             .num_rows = rows.count,
                                             .gate_first = spec_.norm == MambaNorm::kAfterGate,
                                             .weight_stride = group};
  return context_->Run(&DeviceOps::gated_group_norm, params, "gated norm") &&
         next.Quantize("mamba quantize", params.out, rows.count);
}

}  // namespace dunlin::engine
