// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

// Ranks are on the CPU, whose memory the host reads: it picks the rows.
bool GatherOwnRows(LayerContext* context, const char* op, const OwnTable& table, float scale, float* out) {
  for (int32_t row = 0; row < context->rows.count; ++row) {
    const int32_t id = context->inputs.token_ids[row] - table.part.first;
    if (id < 0 || id >= table.part.count) continue;
    const kernels::GatherRowsParams params{.weight = table.weight,
                                           .ids = &id,
                                           .out = out + int64_t{row} * table.columns,
                                           .num_rows = 1,
                                           .accumulate = false,
                                           .scale = scale};
    if (!context->Run(&DeviceOps::gather_rows, params, op)) return false;
  }
  return true;
}

bool Meet(LayerContext* context, const char* op) {
  if (!context->divided()) return true;
  return context->Check(context->buffers.ranks->Meet(context->config.rank) ? kernels::KernelStatus::kOk
                                                                           : kernels::KernelStatus::kDeviceError,
                        op);
}

Columns OwnColumns(const LayerContext& context, float* rows) {
  const int32_t hidden_dim = context.config.hidden_dim;
  return {rows + context.config.part(hidden_dim).first, hidden_dim};
}

// In turns into two buffers: a rank may fill the one that it read the time before last, because all ranks have met
// since.
float* NextGathered(LayerContext* context) {
  return context->buffers.gathered[context->num_gathers++ % 2];
}

const float* GatherColumns(LayerContext* context, const char* op, const RankColumns& own, int32_t columns,
                           int32_t num_rows) {
  float* gathered = NextGathered(context);
  const kernels::CopyColumnsParams params{.in = own.data,
                                          .in_stride = own.stride,
                                          .in_block_stride = own.count,
                                          .out = gathered + own.first,
                                          .out_stride = columns,
                                          .out_block_stride = own.block_stride,
                                          .num_rows = num_rows,
                                          .num_blocks = own.num_blocks,
                                          .columns = own.count};
  return context->Run(&DeviceOps::copy_columns, params, op) && Meet(context, op) ? gathered : nullptr;
}

bool QuantizeColumns(LayerContext* context, const char* op, const Linear& next, const RankColumns& own,
                     int32_t num_rows) {
  if (!context->divided()) return next.Quantize(op, own.data, num_rows);
  const float* rows = GatherColumns(context, op, own, next.columns(), num_rows);
  return rows != nullptr && next.Quantize(op, rows, num_rows);
}

}  // namespace dunlin::engine
