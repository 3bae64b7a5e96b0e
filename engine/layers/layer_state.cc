// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/layer_state.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kCopiedColumns = 1024;  // floats of a row of a copy, 4 KiB, which is what threads divide

}  // namespace

bool CopyStates(LayerContext* context, const StatePart& part) {
  float* states = context->buffers.state + context->config.state_offset(context->layer);
  const int64_t stride = context->config.state_floats();
  const int64_t floats = context->config.layer_state_floats(context->layer);
  const int64_t rows = floats / kCopiedColumns;
  const int64_t rest = floats % kCopiedColumns;
  for (int32_t i = 0; i < part.num_copies; ++i) {
    const float* from = states + part.copies[i].from * stride;
    float* to = states + part.copies[i].to * stride;
    const auto copy = [&](int64_t first, int64_t num_rows, int64_t columns) {
      const kernels::CopyColumnsParams params{.in = from + first,
                                              .in_stride = columns,
                                              .in_block_stride = 0,
                                              .out = to + first,
                                              .out_stride = columns,
                                              .out_block_stride = columns,
                                              .num_rows = static_cast<int32_t>(num_rows),
                                              .num_blocks = 1,
                                              .columns = static_cast<int32_t>(columns)};
      return context->Run(&kernels::DeviceOps::copy_columns, params, "copy of a state");
    };
    if (rows > 0 && !copy(0, rows, kCopiedColumns)) return false;
    if (rest > 0 && !copy(rows * kCopiedColumns, 1, rest)) return false;
  }
  return true;
}

}  // namespace dunlin::engine
