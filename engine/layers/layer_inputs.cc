// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/layer_inputs.h"

#include <cmath>

#include "engine/layers/embedding.h"
#include "engine/layers/mlp.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

bool QuantizeRows(LayerContext* context, const float* rows, const Linear& next, const char* op) {
  const kernels::QuantizeParams params{
      .in = rows, .in_stride = next.columns(), .out = next.Input(context->rows.count), .num_rows = context->rows.count};
  return context->Run(&DeviceOps::quantize, params, op);
}

}  // namespace

bool LayerInputs::Fill() const {
  if (context_->divided()) return FillDivided();
  auto* projected = static_cast<float*>(context_->buffers.mlp);
  return Gather() && Project({projected, context_->config.layer_input_features()}) && Normalize(projected);
}

bool LayerInputs::FillDivided() const {
  static constexpr char kOp[] = "layer projection";
  const int32_t columns = context_->config.layer_input_features();
  if (!GatherDivided()) return false;
  float* const projected = NextGathered(context_);
  const RankPart own = context_->config.part(columns);
  return Project({projected + own.first, columns}) &&
         ShareColumns(context_, kOp, projected, columns, own, context_->rows.count) && Normalize(projected) &&
         MeetOverRows(context_, kOp);
}

// As a term of the sum: divided by sqrt(2).
float LayerInputs::TableScale() const {
  return RoundedScale(context_->config.layer_inputs.scale, context_->profile.precision) *
         static_cast<float>(std::sqrt(0.5));
}

// Linked ranks gather apart from their copy, as Embedding does; the others read no row before they have met.
bool LayerInputs::GatherDivided() const {
  static constexpr char kOp[] = "layer embeddings";
  const int32_t columns = context_->config.layer_input_features();
  float* const out = context_->buffers.layer_inputs;
  const OwnTable table{&context_->weights.layer_table, context_->config.part(context_->config.layer_inputs.vocab_size),
                       columns};
  if (!context_->linked()) return GatherOwnRows(context_, kOp, table, TableScale(), out);
  float* const rows = NextGathered(context_);
  return GatherOwnRows(context_, kOp, table, TableScale(), rows) && ShareTokenRows(context_, kOp, rows, out, columns);
}

bool LayerInputs::Gather() const {
  const kernels::GatherRowsParams params{.weight = &context_->weights.layer_table,
                                         .ids = context_->inputs.token_ids,
                                         .out = context_->buffers.layer_inputs,
                                         .num_rows = context_->rows.count,
                                         .accumulate = false,
                                         .scale = TableScale()};
  return context_->Run(&DeviceOps::gather_rows, params, "layer embeddings");
}

bool LayerInputs::Project(const Columns& out) const {
  const Linear projection(context_, context_->weights.layer_projection, HeadInputIndex(context_->config));
  if (!QuantizeRows(context_, context_->rows.hidden, projection, "layer projection input")) return false;
  kernels::GemmParams params = projection.Params(context_->rows.count);
  params.decode_rows = context_->rows.num_decode;
  params.out = out.data;
  params.out_stride = out.stride;
  return context_->Run(&DeviceOps::gemm, params, "layer projection");
}

// The norm of c / sqrt(hidden_dim) with an epsilon e is that of c with e * hidden_dim.
bool LayerInputs::Normalize(const float* projected) const {
  const ModelConfig& config = context_->config;
  const RankPart rows = OwnRows(*context_, context_->rows.count);
  const int64_t first = int64_t{rows.first} * config.layer_input_features();
  kernels::Activation width{.columns = config.layer_inputs.width};
  kernels::NormParams params{};
  params.kind = kernels::NormKind::kRmsNorm;
  params.in = projected + first;
  params.weight = context_->weights.layer_projection_norm.weight;
  params.epsilon = config.norm.epsilon * static_cast<float>(config.hidden_dim);
  params.out = &width;
  params.num_rows = rows.count * config.num_layers;
  params.residual = params.rows_out = context_->buffers.layer_inputs + first;
  return context_->Run(&DeviceOps::norm, params, "layer projection norm");
}

bool LayerInputTerm::Run() const {
  const Linear out(context_, weights_.layer_input_out, InputIndex(context_->layer, LayerInput::kMlpDown));
  return Gate() && Activate(out) &&
         out.AddToResidual("layer input out", weights_.post_layer_input_norm, weights_.layer_factor);
}

bool LayerInputTerm::Gate() const {
  const Linear gate(context_, weights_.layer_input_gate, InputIndex(context_->layer, LayerInput::kMlpUp));
  const int32_t width = own_.count;
  auto* gated = static_cast<float*>(context_->buffers.mlp);
  return QuantizeRows(context_, context_->rows.hidden, gate, "layer input") &&
         gate.Run("layer input gate", Columns{gated, 2 * int64_t{width}}) && CopyInputs(gated + width);
}

bool LayerInputTerm::CopyInputs(float* out) const {
  const ModelConfig& config = context_->config;
  const LayerRows& rows = context_->rows;
  const int32_t width = own_.count;
  const int64_t first = int64_t{context_->layer} * config.layer_inputs.width + own_.first;
  kernels::CopyColumnsParams columns{.in = context_->buffers.layer_inputs + first,
                                     .in_stride = config.layer_input_features(),
                                     .in_block_stride = width,
                                     .out = out,
                                     .out_stride = 2 * int64_t{width},
                                     .out_block_stride = width,
                                     .num_rows = rows.count,
                                     .num_blocks = 1,
                                     .columns = width};
  if (rows.picked == nullptr) return context_->Run(&DeviceOps::copy_columns, columns, "layer inputs");
  const kernels::CopyRowsParams picked{
      .in = columns.in,
      .in_stride = columns.in_stride,
      .rows = rows.picked,
      .out = context_->divided() ? context_->buffers.rank_columns : context_->buffers.term,
      .num_rows = rows.count,
      .columns = width};
  columns.in = picked.out;
  columns.in_stride = width;
  return context_->Run(&DeviceOps::copy_rows, picked, "kept layer inputs") &&
         context_->Run(&DeviceOps::copy_columns, columns, "layer inputs");
}

bool LayerInputTerm::Activate(const Linear& next) const {
  if (context_->divided()) return engine::Activate(context_, next, context_->rows.count, 0.0F);
  kernels::ActivateParams params{};
  params.kind = context_->config.mlp.activation;
  params.gated = true;
  params.in = static_cast<const float*>(context_->buffers.mlp);
  params.num_rows = context_->rows.count;
  if (!context_->eager()) {
    params.out = next.Input(params.num_rows);
    return context_->Run(&DeviceOps::activate, params, "layer input activation");
  }
  kernels::Activation width{.columns = next.columns()};
  params.out = &width;
  params.rows_out = context_->buffers.unfused;
  return context_->Run(&DeviceOps::activate, params, "layer input activation") &&
         QuantizeRows(context_, params.rows_out, next, "layer input quantize");
}

}  // namespace dunlin::engine
