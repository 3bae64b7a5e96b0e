// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/norm.h"

#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

bool Norm::Run(const char* op, const Linear* next, const NormRows& rows) const {
  if (context_->post_norm() && context_->divided()) {
    return RunInPlace(op) && (next == nullptr || next->Quantize(op, rows.in, rows.count));
  }
  kernels::NormParams params = Params(rows.count);
  params.in = rows.in;
  params.rows = rows.picked;
  if (next != nullptr) params.rows_out = next->KeepInput();
  if (context_->post_norm()) params.rows_out = context_->rows.hidden;
  if (next != nullptr && params.rows_out != nullptr) context_->input_rows = params.rows_out;
  if (next != nullptr && !context_->eager()) {
    params.out = next->Input(rows.count);
    return context_->Run(&DeviceOps::norm, params, op);
  }
  kernels::Activation width{.columns = context_->config.hidden_dim};
  params.out = &width;
  if (params.rows_out == nullptr) params.rows_out = context_->buffers.unfused;
  return context_->Run(&DeviceOps::norm, params, op) &&
         (next == nullptr || next->Quantize(op, params.rows_out, rows.count));
}

bool Norm::Run(const char* op, float* out) const {
  kernels::NormParams params = Params(context_->rows.count);
  kernels::Activation width{.columns = context_->config.hidden_dim};
  params.in = context_->rows.hidden;
  params.rows_out = out;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, op);
}

bool Norm::RunInPlace(const char* op) const {
  const RankPart own = OwnRows(*context_, context_->rows.count);
  kernels::NormParams params = Params(own.count);
  kernels::Activation width{.columns = context_->config.hidden_dim};
  params.in = params.rows_out = context_->rows.hidden + int64_t{own.first} * context_->config.hidden_dim;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, op) && MeetOverRows(context_, op);
}

bool Norm::AddToResidual(const char* op, float* term, const float* factor) const {
  const RankPart rows = OwnRows(*context_, context_->rows.count);
  const int64_t first = int64_t{rows.first} * context_->config.hidden_dim;
  float* hidden = context_->rows.hidden + first;
  term += first;
  kernels::Activation width{.columns = context_->config.hidden_dim};
  kernels::NormParams params = Params(rows.count);
  const float epsilon = context_->config.norm.post_epsilon;
  if (epsilon > 0.0F) params.epsilon = epsilon;
  params.in = term;
  params.out = &width;
  if (!context_->eager()) {
    params.residual = params.rows_out = hidden;
    params.factor = factor;
    return context_->Run(&DeviceOps::norm, params, op) && MeetOverRows(context_, op);
  }
  params.rows_out = term;
  kernels::AddParams add{};
  add.rows = hidden;
  add.residual = term;
  add.factor = factor;
  add.num_rows = params.num_rows;
  add.columns = context_->config.hidden_dim;
  return context_->Run(&DeviceOps::norm, params, op) && context_->Run(&DeviceOps::add, add, "post norm residual") &&
         MeetOverRows(context_, op);
}

kernels::NormParams Norm::Params(int32_t num_rows) const {
  kernels::NormParams params{};
  params.kind = context_->config.norm.kind;
  params.weight = weights_.weight;
  params.bias = weights_.bias;
  params.epsilon = context_->config.norm.epsilon;
  params.num_rows = num_rows;
  return params;
}

bool NormAgainFor(LayerContext* context, const NormWeights& weights, const Linear& linear) {
  if (linear.SharesInputFormat(context->activation) && !linear.IsAdapted()) return true;
  return Norm(context, weights).Run("attention norm", &linear, RowsOf(*context));
}

}  // namespace dunlin::engine
