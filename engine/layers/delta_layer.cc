// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/delta_layer.h"

#include "engine/layers/layer_state.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {

using kernels::DeviceOps;

DeltaLayer::DeltaLayer(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.delta),
      spec_(context->config.delta),
      buffers_(PlaceDeltaBuffers(context->config, context->buffers.max_tokens, context->buffers.delta)) {}

Linear DeltaLayer::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.delta.in, InputIndex(layer, LayerInput::kQkv)};
}

bool DeltaLayer::StoreKv() const {
  const Linear input = InputOf(context_, layer_, context_->layer);
  return input.Run("delta in", nullptr, context_->buffers.qkv, context_->rows.count) && Gates() &&
         ForEachStatePart(context_, [this](const StatePart& part) { return Convolve(part) && Scan(part); });
}

bool DeltaLayer::Gates() const {
  const Linear gates(context_, weights_.gates, InputIndex(context_->layer, LayerInput::kQkv));
  return NormAgainFor(context_, layer_.attention_norm, gates) &&
         gates.Run("delta gates", nullptr, buffers_.gates, context_->rows.count) &&
         (spec_.gate_rank == 0 || OwnGates()) && (!spec_.channel_decays || Decays());
}

bool DeltaLayer::Decays() const {
  const Linear decay(context_, weights_.decay, InputIndex(context_->layer, LayerInput::kQkv));
  return NormAgainFor(context_, layer_.attention_norm, decay) &&
         decay.Run("delta decay", nullptr, buffers_.decay, context_->rows.count);
}

// The second products of the decays and of z.
bool DeltaLayer::OwnGates() const {
  const float* rows = buffers_.gates + spec_.shape.value_heads;
  const int32_t input = InputIndex(context_->layer, LayerInput::kQkv);
  const Linear decay(context_, weights_.decay, input);
  const Linear z(context_, weights_.z, input);
  return RoundRank(decay, rows) && decay.Run("delta decay", nullptr, buffers_.decay, context_->rows.count) &&
         RoundRank(z, rows + spec_.gate_rank) && z.Run("delta z", nullptr, buffers_.z, context_->rows.count);
}

// Not seen by observers: it is no LayerInput.
bool DeltaLayer::RoundRank(const Linear& next, const float* rows) const {
  const int32_t count = context_->rows.count;
  const kernels::QuantizeParams params{
      .in = rows, .in_stride = spec_.gate_features(), .out = next.Input(count), .num_rows = count};
  return context_->Run(&DeviceOps::quantize, params, "delta gates");
}

bool DeltaLayer::Convolve(const StatePart& part) const {
  const kernels::CausalConvParams params{.in = context_->buffers.qkv,
                                         .in_stride = spec_.input_features(),
                                         .weight = weights_.conv,
                                         .channels = spec_.channels(),
                                         .taps = spec_.conv_taps,
                                         .state = StateOf(*context_, part),
                                         .sequences = part.spans,
                                         .num_sequences = part.count,
                                         .out = buffers_.mixed};
  return context_->Run(&DeviceOps::causal_conv, params, "causal convolution");
}

bool DeltaLayer::Scan(const StatePart& part) const {
  const kernels::DeltaScanParams params{.shape = spec_.shape,
                                        .in = buffers_.mixed,
                                        .gates = buffers_.gates,
                                        .rate = weights_.rate,
                                        .dt_bias = weights_.time_bias,
                                        .state = StateOf(*context_, part, spec_.conv_state_floats()),
                                        .sequences = part.spans,
                                        .num_sequences = part.count,
                                        .out = buffers_.scan,
                                        .gates_stride = spec_.gate_features(),
                                        .steps = spec_.decays_by_channel() ? buffers_.decay : nullptr,
                                        .beta_scale = spec_.signed_states ? 2.0F : 1.0F,
                                        .decay_bound = spec_.decay_bound};
  return context_->Run(&DeviceOps::delta_scan, params, "delta scan");
}

bool DeltaLayer::Run(const Linear& next) const {
  const LayerRows& rows = context_->rows;
  const bool own = spec_.gate_rank > 0;
  const float epsilon = spec_.norm_epsilon > 0.0F ? spec_.norm_epsilon : context_->config.norm.epsilon;
  const kernels::GatedGroupNormParams params{.in = buffers_.scan,
                                             .gate = own ? buffers_.z : context_->buffers.qkv + spec_.channels(),
                                             .gate_stride = own ? spec_.output_features() : spec_.input_features(),
                                             .rows = rows.picked,
                                             .weight = weights_.norm,
                                             .epsilon = epsilon,
                                             .num_groups = spec_.shape.value_heads,
                                             .columns = spec_.shape.value_dim,
                                             .out = context_->buffers.attention,
                                             .num_rows = rows.count,
                                             .sigmoid_gate = spec_.decays_by_channel()};
  return context_->Run(&DeviceOps::gated_group_norm, params, "gated norm") &&
         QuantizeColumns(context_, "delta quantize", next, OwnValues(params.out), rows.count);
}

RankColumns DeltaLayer::OwnValues(const float* rows) const {
  const ModelConfig& config = context_->config;
  const kernels::DeltaShape& whole = config.undivided().delta.shape;
  const HeadRuns heads = DeltaHeadsOf(whole, config.rank, config.num_ranks).value;
  return {.data = rows,
          .stride = spec_.output_features(),
          .first = heads.first * whole.value_dim,
          .count = heads.count * whole.value_dim,
          .num_blocks = heads.num_runs,
          .block_stride = int64_t{heads.stride} * whole.value_dim};
}

}  // namespace dunlin::engine
