// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/layer_rows.h"

namespace dunlin::engine {

using kernels::KernelStatus;

LayerRows AllRows(const ModelConfig& config, const LayerBuffers& buffers, const PassInputs& inputs) {
  return {.hidden = buffers.hidden,
          .query = buffers.qkv,
          .query_stride = config.attention.qkv_features(),
          .spans = inputs.spans,
          .count = inputs.num_tokens,
          .num_decode = inputs.num_decode_tokens};
}

KernelStatus KeepRows(const ModelConfig& config, const LayerBuffers& buffers, const KeptRows& kept, int32_t layer,
                      LayerRows* rows) {
  rows->count = kept.count;
  rows->num_decode = kept.num_decode;
  if (kept.spans.count == 0) return KernelStatus::kOk;
  const kernels::Device& device = *buffers.device;
  float* hidden = buffers.kept_rows;
  float* query = buffers.kept_queries != nullptr ? buffers.kept_queries
                                                 : hidden + int64_t{buffers.max_kept_rows} * config.hidden_dim;
  kernels::CopyRowsParams params{.in = rows->hidden,
                                 .in_stride = config.hidden_dim,
                                 .rows = kept.index,
                                 .out = hidden,
                                 .num_rows = kept.count,
                                 .columns = config.hidden_dim};
  if (config.rank == 0) {  // one memory of all ranks
    if (const auto status = device.ops->copy_rows(device.context, params); status != KernelStatus::kOk) return status;
  }
  rows->hidden = hidden;
  rows->picked = kept.index;
  rows->spans = kept.spans;
  if (!config.attends(layer)) return KernelStatus::kOk;  // there are no queries
  params.in = rows->query;
  params.in_stride = rows->query_stride;
  params.out = query;
  params.columns = config.attention.query_features(layer);
  if (const auto status = device.ops->copy_rows(device.context, params); status != KernelStatus::kOk) return status;
  rows->query = query;
  rows->query_stride = params.columns;
  return KernelStatus::kOk;
}

}  // namespace dunlin::engine
