// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mamba_layer.h"

#include "engine/layers/layer_state.h"
#include "engine/layers/rank_rows.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Next to attention, whose rows the buffer begins with, those of the input projection come after them.
float* ProjectedRows(const LayerContext& context) {
  const LayerBuffers& buffers = context.buffers;
  if (!context.config.attends(context.layer)) return buffers.qkv;
  return buffers.qkv + int64_t{buffers.max_tokens} * context.config.attention.qkv_features();
}

// Without rows; spec: of all of a model's groups or of a rank's.
kernels::GatedGroupNormParams NormParams(const LayerContext& context, const MambaSpec& spec,
                                         const MambaWeights& weights) {
  const int32_t group = spec.output_features() / spec.shape.num_groups;
  return {.in = nullptr,
          .gate = nullptr,
          .gate_stride = 0,
          .rows = context.rows.picked,
          .weight = weights.norm,
          .epsilon = context.config.norm.epsilon,
          .num_groups = spec.shape.num_groups,
          .columns = group,
          .out = context.buffers.attention,
          .num_rows = context.rows.count,
          .gate_first = spec.norm == MambaNorm::kAfterGate,
          .weight_stride = group};
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
  const auto quantize = [&](const float* of_rows) {
    return QuantizeColumns(context_, "mamba quantize", next, ColumnsOf(of_rows, OwnFeatures()), rows.count);
  };
  if (rows.picked == nullptr) return quantize(buffers_.scan);
  const kernels::CopyRowsParams kept{.in = buffers_.scan,
                                     .in_stride = width,
                                     .rows = rows.picked,
                                     .out = context_->buffers.attention,
                                     .num_rows = rows.count,
                                     .columns = width};
  return context_->Run(&DeviceOps::copy_rows, kept, "mamba rows") && quantize(kept.out);
}

RankPart MambaLayer::OwnFeatures() const {
  const ModelConfig& config = context_->config;
  const kernels::SsmShape& whole = config.undivided().mamba.shape;
  const RankPart heads = MambaHeadsOf(whole, config.rank, config.num_ranks).query;
  return {heads.first * whole.head_dim, heads.count * whole.head_dim};
}

bool MambaLayer::Run(const Linear& next) const {
  if (spec_.norm == MambaNorm::kNone) return Gate(next);
  const ModelConfig& config = context_->config;
  if (SharesMambaNorm(config)) return NormGathered(next);
  kernels::GatedGroupNormParams params = NormParams(*context_, spec_, weights_);
  params.in = buffers_.scan;
  params.gate = projected_;
  params.gate_stride = spec_.input_features();
  params.weight += OwnFeatures().first;
  return context_->Run(&DeviceOps::gated_group_norm, params, "gated norm") &&
         QuantizeColumns(context_, "mamba quantize", next, ColumnsOf(params.out, OwnFeatures()), params.num_rows);
}

bool MambaLayer::NormGathered(const Linear& next) const {
  const MambaSpec& whole = context_->config.undivided().mamba;
  const int32_t count = context_->inputs.num_tokens;
  const RankPart own = OwnFeatures();
  const RankColumns gate{.data = projected_, .stride = spec_.input_features(), .first = own.first, .count = own.count};
  kernels::GatedGroupNormParams params = NormParams(*context_, whole, weights_);
  params.gate = GatherColumns(context_, "mamba gate", gate, next.columns(), count);
  if (params.gate == nullptr) return false;
  params.gate_stride = next.columns();
  params.in = GatherColumns(context_, "mamba scan", ColumnsOf(buffers_.scan, own), next.columns(), count);
  return params.in != nullptr && context_->Run(&DeviceOps::gated_group_norm, params, "gated norm") &&
         next.Quantize("mamba quantize", params.out, params.num_rows);
}

}  // namespace dunlin::engine
