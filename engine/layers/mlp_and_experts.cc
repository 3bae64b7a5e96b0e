// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mlp_and_experts.h"

#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

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
  if (!Norm(context_, weights_.mlp_norm).Run("mlp norm", &matrices_.up(), RowsOf(*context_)) || !matrices_.RunUp() ||
      !matrices_.RunActivation() || !RunDown(term)) {
    return false;
  }
  const RankPart rows = OwnRows(*context_, context_->rows.count);
  kernels::Activation width{.columns = context_->config.hidden_dim};
  kernels::NormParams params = Norm(context_, weights_.post_dense_norm).Params(rows.count);
  params.in = params.rows_out = term + int64_t{rows.first} * context_->config.hidden_dim;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, "post dense norm");
}

bool MlpAndExperts::RunDown(float* term) const {
  static constexpr char kOp[] = "mlp down";
  const Linear& down = matrices_.down();
  if (!context_->divided()) return down.Run(kOp, nullptr, term, context_->rows.count);
  const int32_t columns = context_->config.hidden_dim;
  return down.Run(kOp, OwnColumns(*context_, term)) &&
         ShareColumns(context_, kOp, term, columns, context_->config.part(columns), context_->rows.count);
}

bool MlpAndExperts::AddExperts() const {
  static constexpr char kOp[] = "post experts norm";
  const int32_t columns = context_->config.hidden_dim;
  const float* sums = experts_.normed_rows();
  if (context_->divided()) {
    sums = GatherColumns(context_, kOp, ColumnsOf(sums, context_->config.part(columns)), columns, context_->rows.count);
    if (sums == nullptr) return false;
  }
  const RankPart rows = OwnRows(*context_, context_->rows.count);
  const int64_t first = int64_t{rows.first} * columns;
  kernels::Activation width{.columns = columns};
  kernels::NormParams params = Norm(context_, weights_.post_experts_norm).Params(rows.count);
  params.in = sums + first;
  params.out = &width;
  params.residual = params.rows_out = context_->buffers.term + first;
  return context_->Run(&DeviceOps::norm, params, kOp);
}

}  // namespace dunlin::engine
