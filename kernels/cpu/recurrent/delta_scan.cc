// SPDX-License-Identifier: Apache-2.0
// The launcher of the gated delta rule, cut by sequences, heads and columns.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/recurrent/recurrent.h"
#include "kernels/cpu/recurrent/scan_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr float kLengthEpsilon = 1e-6F;  // of the lengths of queries and keys

// What a head's rows have apart from its columns, of up to kScanRows rows at once.
struct DeltaRows {
  float decay[kScanRows];
  float beta[kScanRows];
  float key_scale[kScanRows];
  float query_scale[kScanRows];
  // Of DeltaScanParams::steps, [rows, key_dim].
  float decays[kChannelDecaysMax];
  float decayed_key[kChannelDecaysMax];
};

// The decays of the rows of a head's state, at a row of the call.
void ChannelDecays(const DeltaScanParams& params, int64_t head, int64_t row, const float* key, float* decays,
                   float* decayed_key) {
  const int64_t key_dim = params.shape.key_dim;
  const float* steps = params.steps + (row * params.shape.value_heads + head) * key_dim;
  const float* bias = params.dt_bias + head * key_dim;
  const float rate = params.rate[head];
  for (int64_t i = 0; i < key_dim; ++i) {
    const float step = steps[i] + bias[i];
    const float bounded = params.decay_bound / (1.0F + std::exp(-rate * step));
    decays[i] = std::exp(params.decay_bound < 0.0F ? bounded : -rate * Softplus(step));
    decayed_key[i] = decays[i] * key[i];
  }
}

void FillRows(const KernelTable& kernels, const DeltaScanParams& params, int64_t head, int64_t first_row, int64_t count,
              const float* query, const float* key, DeltaRows* rows) {
  const DeltaShape& shape = params.shape;
  const int64_t key_dim = shape.key_dim;
  const int64_t gates_stride = params.gates_stride > 0 ? params.gates_stride : 2 * int64_t{shape.value_heads};
  const float query_factor = 1.0F / std::sqrt(static_cast<float>(key_dim));
  for (int64_t i = 0; i < count; ++i) {
    const float* gates = params.gates + (first_row + i) * gates_stride + head;
    const int64_t offset = i * shape.channels();
    if (params.steps != nullptr) {
      ChannelDecays(params, head, first_row + i, key + offset, rows->decays + i * key_dim,
                    rows->decayed_key + i * key_dim);
    } else {
      const float step = Softplus(gates[shape.value_heads] + params.dt_bias[head]);
      rows->decay[i] = std::exp(-params.rate[head] * step);
    }
    rows->beta[i] = params.beta_scale / (1.0F + std::exp(-gates[0]));
    rows->key_scale[i] = 1.0F / std::sqrt(kernels.sum_squares(key + offset, key_dim) + kLengthEpsilon);
    rows->query_scale[i] = query_factor / std::sqrt(kernels.sum_squares(query + offset, key_dim) + kLengthEpsilon);
  }
}

void ScanDeltaColumns(const KernelTable& kernels, const DeltaScanParams& params, const ScanTask& task) {
  const DeltaShape& shape = params.shape;
  const int64_t key_dim = shape.key_dim;
  const int64_t key_head =
      shape.tiled_values ? task.head % shape.key_heads : task.head / (shape.value_heads / shape.key_heads);
  const bool own_decays = params.steps != nullptr;
  const int64_t most = own_decays ? std::min(kScanRows, kChannelDecaysMax / key_dim) : kScanRows;
  DeltaRows rows;
  for (int64_t first = 0; first < task.span.query_len; first += most) {
    const int64_t count = std::min<int64_t>(most, task.span.query_len - first);
    const int64_t row = task.span.query_start + first;
    const float* query = params.in + row * shape.channels() + key_head * key_dim;
    const float* key = query + shape.key_heads * key_dim;
    FillRows(kernels, params, task.head, row, count, query, key, &rows);
    const int64_t column = task.head * shape.value_dim + task.first_column;
    kernels.delta_columns({.query = query,
                           .key = key,
                           .value = params.in + row * shape.channels() + 2 * shape.key_heads * key_dim + column,
                           .stride = shape.channels(),
                           .decay = own_decays ? rows.decays : rows.decay,
                           .beta = rows.beta,
                           .key_scale = rows.key_scale,
                           .query_scale = rows.query_scale,
                           .state = task.state,
                           .out = params.out + row * shape.value_features() + column,
                           .out_stride = shape.value_features(),
                           .num_rows = static_cast<int32_t>(count),
                           .key_dim = shape.key_dim,
                           .num_columns = static_cast<int32_t>(task.num_columns),
                           .decayed_key = own_decays ? rows.decayed_key : nullptr});
  }
}

bool ValidDelta(const DeltaScanParams& params) {
  const DeltaShape& shape = params.shape;
  const bool own_decays = params.steps != nullptr;
  const int64_t gates = (own_decays ? 1 : 2) * int64_t{shape.value_heads};
  return shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
         shape.key_dim > 0 && shape.value_dim > 0 && (!own_decays || shape.key_dim <= kChannelDecaysMax) &&
         (params.gates_stride == 0 || params.gates_stride >= gates) &&
         (params.beta_scale == 1.0F || params.beta_scale == 2.0F) &&
         (params.decay_bound == 0.0F || (own_decays && params.decay_bound < 0.0F));
}

}  // namespace

KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params) {
  const DeltaShape& shape = params.shape;
  if (params.num_sequences < 0 || !ValidDelta(params)) return KernelStatus::kInvalidArgument;
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const int64_t head_floats = DeltaHeadFloats(shape);
  if (params.in == nullptr || params.gates == nullptr || params.rate == nullptr || params.dt_bias == nullptr ||
      params.sequences == nullptr || params.out == nullptr ||
      !ValidState(params.state, shape.value_heads * head_floats)) {
    return KernelStatus::kInvalidArgument;
  }
  const ScanShape scan = {shape.value_heads, shape.value_dim, shape.key_dim, head_floats};
  ForEachScan(context, scan, params.state, params.sequences, params.num_sequences,
              [&](const ScanTask& task) { ScanDeltaColumns(context->kernels, params, task); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
