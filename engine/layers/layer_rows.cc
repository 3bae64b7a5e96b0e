// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/layer_rows.h"

namespace dunlin::engine {

using kernels::KernelStatus;

LayerRows AllRows(const ModelConfig& config, const LayerBuffers& buffers, const PassInputs& inputs) {
  return {.hidden = buffers.hidden,
          .query = buffers.qkv,
          .query_stride = config.attention.qkv_features(),
          .spans = inputs.spans,
          .chunk_spans = inputs.chunk_spans,
          .count = inputs.num_tokens,
          .num_decode = inputs.num_decode_tokens};
}

KernelStatus KeepHidden(const ModelConfig& config, const LayerBuffers& buffers, const KeptRows& kept, LayerRows* rows) {
  rows->count = kept.count;
  rows->num_decode = kept.num_decode;
  if (kept.spans.count == 0) return KernelStatus::kOk;
  const kernels::CopyRowsParams params{.in = rows->hidden,
                                       .in_stride = config.hidden_dim,
                                       .rows = kept.index,
                                       .out = buffers.kept_rows,
                                       .num_rows = kept.count,
                                       .columns = config.hidden_dim};
  rows->hidden = buffers.kept_rows;
  rows->picked = kept.index;
  rows->spans = kept.spans;
  rows->chunk_spans = kept.chunk_spans;
  if (config.rank > 0 && buffers.links == nullptr) return KernelStatus::kOk;  // one memory of all ranks
  return buffers.device->ops->copy_rows(buffers.device->context, params);
}

KernelStatus KeepRows(const ModelConfig& config, const LayerBuffers& buffers, const KeptRows& kept, int32_t layer,
                      LayerRows* rows) {
  if (const auto status = KeepHidden(config, buffers, kept, rows); status != KernelStatus::kOk) return status;
  if (kept.spans.count == 0 || !config.attends(layer)) return KernelStatus::kOk;  // or there are no queries
  float* query = buffers.kept_queries != nullptr
                     ? buffers.kept_queries
                     : buffers.kept_rows + int64_t{buffers.max_kept_rows} * config.hidden_dim;
  const kernels::CopyRowsParams params{.in = rows->query,
                                       .in_stride = rows->query_stride,
                                       .rows = kept.index,
                                       .out = query,
                                       .num_rows = kept.count,
                                       .columns = config.attention.query_features(layer)};
  rows->query = query;
  rows->query_stride = params.columns;
  return buffers.device->ops->copy_rows(buffers.device->context, params);
}

}  // namespace dunlin::engine
