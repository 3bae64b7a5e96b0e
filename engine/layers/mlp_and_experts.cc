// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mlp_and_experts.h"

#include "engine/layers/norm.h"

namespace dunlin::engine {

using kernels::DeviceOps;

MlpAndExperts::MlpAndExperts(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      weights_(weights),
      matrices_(context, weights.mlp_up, weights.mlp_down),
      experts_(context, weights) {}

bool MlpAndExperts::Run() {
  return RunMlp() && experts_.SumApart(weights_.router_norm, weights_.experts_norm) && AddExperts() &&
         Norm(context_, weights_.post_mlp_norm)
             .AddToResidual("post norm", context_->buffers.term, FactorAfterMlp(*context_, weights_));
}

bool MlpAndExperts::RunMlp() {
  float* term = context_->buffers.term;
  const int32_t num_rows = context_->rows.count;
  if (!Norm(context_, weights_.mlp_norm).Run("mlp norm", &matrices_.up(), RowsOf(*context_)) || !matrices_.RunUp() ||
      !matrices_.RunActivation() || !matrices_.down().Run("mlp down", nullptr, term, num_rows)) {
    return false;
  }
  kernels::Activation width{.columns = context_->config.hidden_dim};
  kernels::NormParams params = Norm(context_, weights_.post_dense_norm).Params(num_rows);
  params.in = params.rows_out = term;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, "post dense norm");
}

bool MlpAndExperts::AddExperts() const {
  kernels::Activation width{.columns = context_->config.hidden_dim};
  kernels::NormParams params = Norm(context_, weights_.post_experts_norm).Params(context_->rows.count);
  params.in = experts_.normed_rows();
  params.out = &width;
  params.residual = params.rows_out = context_->buffers.term;
  return context_->Run(&DeviceOps::norm, params, "post experts norm");
}

}  // namespace dunlin::engine
