#include "engine/runtime/layer_rows.h"

namespace dunlin::engine {

using kernels::KernelStatus;

LayerRows EveryRow(const ModelConfig& config, const StepBuffers& buffers, const QuerySpans& spans, int32_t count) {
  return {.hidden = buffers.floats(BufferId::kHidden),
          .query = buffers.floats(BufferId::kQkv),
          .query_stride = config.qkv_features(),
          .spans = spans,
          .count = count};
}

KernelStatus KeepRows(const ModelConfig& config, const StepBuffers& buffers, const int32_t* picked,
                      const QuerySpans& spans, int32_t count, LayerRows* rows) {
  const kernels::Device& device = *buffers.device();
  const int32_t query_columns = config.num_heads * config.head_dim;
  float* hidden = buffers.floats(BufferId::kKeptRows);
  float* query = hidden + int64_t{buffers.plan().max_kept_rows} * config.hidden_dim;
  kernels::CopyRowsParams params{.in = rows->hidden,
                                 .in_stride = config.hidden_dim,
                                 .rows = picked,
                                 .out = hidden,
                                 .num_rows = count,
                                 .columns = config.hidden_dim};
  if (const auto status = device.ops->copy_rows(device.context, params); status != KernelStatus::kOk) return status;
  params.in = rows->query;
  params.in_stride = rows->query_stride;
  params.out = query;
  params.columns = query_columns;
  if (const auto status = device.ops->copy_rows(device.context, params); status != KernelStatus::kOk) return status;
  *rows = {.hidden = hidden, .query = query, .query_stride = query_columns, .spans = spans, .count = count};
  return KernelStatus::kOk;
}

}  // namespace dunlin::engine
