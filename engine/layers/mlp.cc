// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mlp.h"

#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

MlpMatrices::MlpMatrices(LayerContext* context, const LinearWeights& up, const LinearWeights& down, const float* curve)
    : context_(context),
      up_(context, up, InputIndex(context->layer, LayerInput::kMlpUp)),
      down_(context, down, InputIndex(context->layer, LayerInput::kMlpDown)),
      limit_(context->config.mlp.limit(context->layer)),
      curve_(curve) {}

bool MlpMatrices::RunUp() {
  const int32_t num_rows = context_->rows.count;
  fused_ = down_.InputIn(context_->buffers.mlp, num_rows);
  kernels::GemmParams params = up_.Params(num_rows);
  params.bias = up_.bias();
  params.next = &fused_;
  params.activation = context_->config.mlp.activation;
  const bool apart = up_.IsAdapted() || down_.IsAdapted() || context_->divided() || limit_ > 0.0F || curve_ != nullptr;
  if (!apart && context_->Fuses(params)) return context_->Run(&DeviceOps::gemm, params, "mlp up");
  fused_.data = nullptr;
  return up_.Run("mlp up", nullptr, static_cast<float*>(context_->buffers.mlp), num_rows);
}

bool MlpMatrices::RunActivation() const {
  if (fused_.data == nullptr) return Activate(context_, down_, context_->rows.count, limit_, curve_);
  context_->activation = fused_;
  return true;
}

namespace {

// The rank's columns, then those of all ranks as the input of `next`.
bool ActivateAndGather(LayerContext* context, const Linear& next, kernels::ActivateParams params) {
  const RankPart part = context->config.part(next.columns());
  kernels::Activation width{.columns = part.count};
  params.out = &width;
  params.rows_out = context->buffers.rank_columns;
  if (!context->Run(&DeviceOps::activate, params, "activate")) return false;
  return QuantizeColumns(context, "mlp quantize", next, ColumnsOf(params.rows_out, part), params.num_rows);
}

}  // namespace

bool Activate(LayerContext* context, const Linear& next, int32_t num_rows, float limit, const float* curve) {
  kernels::ActivateParams params{};
  params.kind = context->config.mlp.activation;
  params.gated = context->config.mlp.gated;
  params.in = static_cast<const float*>(context->buffers.mlp);
  params.num_rows = num_rows;
  params.limit = limit;
  params.cuts_before = limit > 0.0F && context->config.mlp.cuts_before;
  params.curve = curve;
  if (context->divided()) return ActivateAndGather(context, next, params);
  params.rows_out = next.KeepInput();
  if (!context->eager()) {
    params.out = next.Input(num_rows);
    return context->Run(&DeviceOps::activate, params, "activate");
  }
  kernels::Activation width{.columns = next.columns()};
  params.out = &width;
  if (params.rows_out == nullptr) params.rows_out = context->buffers.unfused;
  return context->Run(&DeviceOps::activate, params, "activate") &&
         next.Quantize("mlp quantize", params.rows_out, num_rows);
}

const float* FactorAfterMlp(const LayerContext& context, const LayerWeights& weights) {
  return context.config.has_layer_inputs() ? nullptr : weights.layer_factor;
}

Mlp::Mlp(LayerContext* context, const LayerWeights& weights)
    : context_(context), weights_(weights), matrices_(context, weights.mlp_up, weights.mlp_down, weights.mlp_curve) {}

// The norm before the MLP is mlp_norm; attention_norm where that stands after the attention or is shared. A shared norm
// runs again, because the two projections may take inputs of different precisions and scales.
bool Mlp::Begin() {
  const Linear& up = matrices_.up();
  const bool post_norm = context_->post_norm();
  const bool own_norm = !context_->config.norm.shared && !post_norm;
  const Norm norm(context_, own_norm ? weights_.mlp_norm : weights_.attention_norm);
  const bool ready = context_->norms_inside()
                         ? up.Quantize("mlp input", context_->rows.hidden, context_->rows.count)
                         : norm.Run(post_norm ? "attention norm" : "mlp norm", &up, RowsOf(*context_));
  return ready && matrices_.RunUp();
}

bool Mlp::Run() {
  return matrices_.RunActivation() &&
         matrices_.down().AddToResidual("mlp down", weights_.post_mlp_norm, FactorAfterMlp(*context_, weights_));
}

}  // namespace dunlin::engine
