// SPDX-License-Identifier: Apache-2.0
// A layer's experts: hidden += sum over a row's experts of weight * Down(f(Up(norm(hidden)))). The rows of each expert
// are gathered and computed as a batch of their own. An expert adds to the rows it was given, the experts of a layer in
// ascending order and the shared one last, so that a row's sum depends on the row alone.
#include "engine/layers/forward_pass.h"

namespace dunlin::engine {

bool ForwardPass::LayerNormExperts(const LayerWeights& weights) {
  const ExpertBuffers buffers = PlaceExpertBuffers(config_, buffers_.max_tokens, buffers_.experts);
  kernels::NormParams norm = NormParamsOf(weights.mlp_norm, rows_.count);
  kernels::Activation width{.columns = config_.hidden_dim};
  norm.in = rows_.hidden;
  norm.out = &width;
  norm.rows_out = buffers.normed;
  if (!Ran(ops_.norm(context_, norm), "mlp norm") || !Route(weights, buffers)) return false;
  const LayerRows all = rows_;
  int64_t first = 0;  // in the rows that are grouped by expert
  for (size_t i = 0; i < weights.experts.size(); ++i) {
    const kernels::ExpertRows rows = expert_rows_[i];
    if (rows.count == 0) continue;
    rows_.count = rows.count;
    rows_.num_decode = rows.num_decode;
    const bool ran = Expert(weights.experts[i], buffers, first);
    rows_ = all;
    if (!ran) return false;
    first += rows.count;
  }
  return config_.shared_ffn_dim == 0 || SharedExpert(weights.shared_expert, buffers);
}

// Fills expert_rows_ and the arrays that say which rows an expert takes.
bool ForwardPass::Route(const LayerWeights& weights, const ExpertBuffers& buffers) {
  const Target router{weights.router, InputIndex(layer_, LayerInput::kMlpUp)};
  if (!Quantize("router input", buffers.normed, router, rows_.count) ||
      !Linear("router", weights.router, nullptr, buffers.logits, rows_.count)) {
    return false;
  }
  const kernels::RouteExpertsParams params{.rule = config_.routing,
                                           .logits = buffers.logits,
                                           .logits_stride = config_.router_features(),
                                           .correction = weights.router_correction,
                                           .num_rows = rows_.count,
                                           .decode_rows = rows_.num_decode,
                                           .chosen = buffers.chosen,
                                           .chosen_weights = buffers.chosen_weights,
                                           .experts = buffers.experts,
                                           .rows = buffers.rows,
                                           .weights = buffers.weights};
  // The host decides which products run. Its memory here is not pinned, so the copy has ended on return.
  return Ran(ops_.route_experts(context_, params), "routing") &&
         Ran(ops_.copy_to_host(context_, expert_rows_.data(), buffers.experts,
                               weights.experts.size() * sizeof(kernels::ExpertRows)),
             "copy of the experts' row counts");
}

// first: of the rows in the order of the experts. rows_ counts the expert's rows.
bool ForwardPass::Expert(const ExpertWeights& expert, const ExpertBuffers& buffers, int64_t first) {
  const kernels::CopyRowsParams gather{.in = buffers.normed,
                                       .in_stride = config_.hidden_dim,
                                       .rows = buffers.rows + first,
                                       .out = buffers.gathered,
                                       .num_rows = rows_.count,
                                       .columns = config_.hidden_dim};
  const kernels::AddWeightedRowsParams add{.in = buffers.output,
                                           .rows = buffers.rows + first,
                                           .weights = buffers.weights + first,
                                           .weight_stride = 1,
                                           .sigmoid = false,
                                           .out = rows_.hidden,
                                           .num_rows = rows_.count,
                                           .columns = config_.hidden_dim};
  return Ran(ops_.copy_rows(context_, gather), "gather of an expert's rows") &&
         ExpertMlp(expert, buffers.gathered, nullptr, buffers.output) &&
         Ran(ops_.add_weighted_rows(context_, add), "sum of the experts");
}

bool ForwardPass::SharedExpert(const ExpertWeights& expert, const ExpertBuffers& buffers) {
  if (!config_.shared_gate) return ExpertMlp(expert, buffers.normed, rows_.hidden, rows_.hidden);
  const kernels::AddWeightedRowsParams add{.in = buffers.output,
                                           .rows = nullptr,
                                           .weights = buffers.logits + config_.routing.num_experts,
                                           .weight_stride = config_.router_features(),
                                           .sigmoid = true,
                                           .out = rows_.hidden,
                                           .num_rows = rows_.count,
                                           .columns = config_.hidden_dim};
  return ExpertMlp(expert, buffers.normed, nullptr, buffers.output) &&
         Ran(ops_.add_weighted_rows(context_, add), "sum of the shared expert");
}

// out = Down(f(Up(in))) + residual for rows_.count rows.
bool ForwardPass::ExpertMlp(const ExpertWeights& expert, const float* in, const float* residual, float* out) {
  const Target up{expert.up, InputIndex(layer_, LayerInput::kMlpUp)};
  const Target down{expert.down, InputIndex(layer_, LayerInput::kMlpDown)};
  return Quantize("expert input", in, up, rows_.count) && UpProjection(up, down) && DownInput(down) &&
         Linear("expert down", expert.down, residual, out, rows_.count);
}

}  // namespace dunlin::engine
