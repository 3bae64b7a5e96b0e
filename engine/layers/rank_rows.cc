// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Of another rank, where these rows lie in one of the buffers that are copies.
float* InRank(const LayerBuffers& own, const LayerBuffers& other, const float* rows) {
  if (rows == own.hidden) return other.hidden;
  if (rows == own.term) return other.term;
  if (rows == own.layer_inputs) return other.layer_inputs;
  if (rows == own.kept_rows) return other.kept_rows;
  if (rows == own.logits) return other.logits;
  return rows == own.gathered[0] ? other.gathered[0] : other.gathered[1];
}

// Without rows.
kernels::ShareColumnsParams ShareOf(const LayerContext& context) {
  kernels::ShareColumnsParams params{};
  params.links = context.buffers.links;
  params.rank = context.config.rank;
  params.num_blocks = 1;
  return params;
}

// The places of `rows` from `first` on, in all ranks or in one.
void SetTargets(const LayerContext& context, const float* rows, int64_t first, int32_t to,
                kernels::ShareColumnsParams* params) {
  for (int32_t rank = 0; rank < context.config.num_ranks; ++rank) {
    if (to >= 0 && rank != to) continue;
    const auto index = static_cast<size_t>(rank);
    params->out[index] = InRank(context.buffers, *context.buffers.of_ranks[index], rows) + first;
  }
}

}  // namespace

// Where ranks share their memory the host reads it, and picks the rows. Linked ones gather zeros in place of the
// others' rows: PassInputs::token_ids count from the first of the rank's.
bool GatherOwnRows(LayerContext* context, const char* op, const OwnTable& table, float scale, float* out) {
  kernels::GatherRowsParams params{.weight = table.weight,
                                   .ids = context->inputs.token_ids,
                                   .out = out,
                                   .num_rows = context->rows.count,
                                   .accumulate = false,
                                   .scale = scale};
  if (context->linked()) return context->Run(&DeviceOps::gather_rows, params, op);
  params.num_rows = 1;
  for (int32_t row = 0; row < context->rows.count; ++row) {
    const int32_t id = context->inputs.token_ids[row] - table.part.first;
    if (id < 0 || id >= table.part.count) continue;
    params.ids = &id;
    params.out = out + int64_t{row} * table.columns;
    if (!context->Run(&DeviceOps::gather_rows, params, op)) return false;
  }
  return true;
}

bool Meet(LayerContext* context, const char* op) {
  if (!context->divided()) return true;
  if (context->linked()) return context->Run(&DeviceOps::share_columns, ShareOf(*context), op);
  return context->Check(context->buffers.ranks->Meet(context->config.rank) ? kernels::KernelStatus::kOk
                                                                           : kernels::KernelStatus::kDeviceError,
                        op);
}

bool ShareColumns(LayerContext* context, const char* op, float* rows, int32_t columns, const RankPart& own,
                  int32_t num_rows, int32_t to) {
  if (!context->linked()) return Meet(context, op);
  kernels::ShareColumnsParams params = ShareOf(*context);
  params.in = rows + own.first;
  params.in_stride = params.out_stride = columns;
  params.num_rows = num_rows;
  params.columns = own.count;
  SetTargets(*context, rows, own.first, to, &params);
  return context->Run(&DeviceOps::share_columns, params, op);
}

// Tokens count from the rank's first row of the vocabulary: PassInputs::token_ids.
bool ShareTokenRows(LayerContext* context, const char* op, const float* rows, float* out, int32_t columns) {
  if (!context->linked()) return Meet(context, op);
  const ModelConfig& config = context->config;
  kernels::ShareColumnsParams params = ShareOf(*context);
  params.in = rows;
  params.in_stride = params.out_stride = columns;
  params.ids = context->inputs.token_ids;
  params.num_ids = config.part(config.vocab_size).count;
  params.num_rows = context->rows.count;
  params.columns = columns;
  SetTargets(*context, out, 0, -1, &params);
  return context->Run(&DeviceOps::share_columns, params, op);
}

Columns OwnColumns(const LayerContext& context, float* rows) {
  const int32_t hidden_dim = context.config.hidden_dim;
  return {rows + context.config.part(hidden_dim).first, hidden_dim};
}

bool CopyOwnColumns(LayerContext* context, const char* op, const Columns& from, const Columns& to) {
  const kernels::CopyColumnsParams params{.in = from.data,
                                          .in_stride = from.stride,
                                          .in_block_stride = 0,
                                          .out = to.data,
                                          .out_stride = to.stride,
                                          .out_block_stride = 0,
                                          .num_rows = context->rows.count,
                                          .num_blocks = 1,
                                          .columns = context->config.part(context->config.hidden_dim).count};
  return context->Run(&DeviceOps::copy_columns, params, op);
}

// In turns into two buffers: a rank may fill the one that it read the time before last, because all ranks have met
// since.
float* NextGathered(LayerContext* context) {
  return context->buffers.gathered[context->num_gathers++ % 2];
}

bool GiveColumns(LayerContext* context, const char* op, const RankColumns& own, float* gathered, int64_t offset,
                 int32_t columns, int32_t num_rows) {
  if (context->linked()) {
    kernels::ShareColumnsParams params = ShareOf(*context);
    params.in = own.data;
    params.in_stride = own.stride;
    params.in_block_stride = own.count;
    params.out_stride = columns;
    params.out_block_stride = own.block_stride;
    params.num_rows = num_rows;
    params.num_blocks = own.num_blocks;
    params.columns = own.count;
    SetTargets(*context, gathered, offset + own.first, -1, &params);
    return context->Run(&DeviceOps::share_columns, params, op);
  }
  if (own.count == 0) return true;
  const kernels::CopyColumnsParams params{.in = own.data,
                                          .in_stride = own.stride,
                                          .in_block_stride = own.count,
                                          .out = gathered + offset + own.first,
                                          .out_stride = columns,
                                          .out_block_stride = own.block_stride,
                                          .num_rows = num_rows,
                                          .num_blocks = own.num_blocks,
                                          .columns = own.count};
  return context->Run(&DeviceOps::copy_columns, params, op);
}

const float* GatherColumns(LayerContext* context, const char* op, const RankColumns& own, int32_t columns,
                           int32_t num_rows) {
  float* gathered = NextGathered(context);
  const bool gave = GiveColumns(context, op, own, gathered, 0, columns, num_rows);
  return gave && (context->linked() || Meet(context, op)) ? gathered : nullptr;
}

bool QuantizeColumns(LayerContext* context, const char* op, const Linear& next, const RankColumns& own,
                     int32_t num_rows) {
  if (!context->divided()) return next.Quantize(op, own.data, num_rows);
  const float* rows = GatherColumns(context, op, own, next.columns(), num_rows);
  return rows != nullptr && next.Quantize(op, rows, num_rows);
}

}  // namespace dunlin::engine
