// SPDX-License-Identifier: Apache-2.0
// The launcher of Mamba2's scan, cut by sequences, heads and columns.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/recurrent/recurrent.h"
#include "kernels/cpu/recurrent/scan_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

void ScanSsmColumns(const KernelTable& kernels, const SsmScanParams& params, const ScanTask& task) {
  const SsmShape& shape = params.shape;
  const int64_t group = task.head / (shape.num_heads / shape.num_groups);
  const int64_t column = task.head * shape.head_dim + task.first_column;
  float decay[kScanRows];
  float step[kScanRows];
  for (int64_t first = 0; first < task.span.query_len; first += kScanRows) {
    const int64_t count = std::min<int64_t>(kScanRows, task.span.query_len - first);
    const int64_t row = task.span.query_start + first;
    const float* in = params.in + row * shape.channels();
    for (int64_t i = 0; i < count; ++i) {
      const float raw = params.step[(row + i) * params.step_stride + task.head] + params.step_bias[task.head];
      step[i] = std::min(std::max(Softplus(raw), params.step_min), params.step_max);
      decay[i] = std::exp(-params.rate[task.head] * step[i]);
    }
    const float* b = in + shape.features() + group * shape.state_dim;
    kernels.ssm_columns({.x = in + column,
                         .b = b,
                         .c = b + int64_t{shape.num_groups} * shape.state_dim,
                         .stride = shape.channels(),
                         .decay = decay,
                         .step = step,
                         .skip = params.skip[task.head],
                         .state = task.state,
                         .out = params.out + row * shape.features() + column,
                         .out_stride = shape.features(),
                         .num_rows = static_cast<int32_t>(count),
                         .state_dim = shape.state_dim,
                         .num_columns = static_cast<int32_t>(task.num_columns)});
  }
}

bool ValidShape(const SsmShape& shape) {
  return shape.num_groups > 0 && shape.num_heads > 0 && shape.num_heads % shape.num_groups == 0 && shape.head_dim > 0 &&
         shape.state_dim > 0;
}

}  // namespace

KernelStatus SsmScan(DeviceContext* context, const SsmScanParams& params) {
  const SsmShape& shape = params.shape;
  if (params.num_sequences < 0 || !ValidShape(shape) || params.step_stride < shape.num_heads ||
      !(params.step_min >= 0.0F && params.step_min <= params.step_max)) {
    return KernelStatus::kInvalidArgument;
  }
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const int64_t head_floats = SsmHeadFloats(shape);
  if (params.in == nullptr || params.step == nullptr || params.rate == nullptr || params.step_bias == nullptr ||
      params.skip == nullptr || params.sequences == nullptr || params.out == nullptr ||
      !ValidState(params.state, shape.num_heads * head_floats)) {
    return KernelStatus::kInvalidArgument;
  }
  const ScanShape scan = {shape.num_heads, shape.head_dim, shape.state_dim, head_floats};
  ForEachScan(context, scan, params.state, params.sequences, params.num_sequences,
              [&](const ScanTask& task) { ScanSsmColumns(context->kernels, params, task); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
