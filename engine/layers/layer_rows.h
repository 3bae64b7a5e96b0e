// SPDX-License-Identifier: Apache-2.0
// The rows that a layer computes: all rows of a batch or, once no layer stores keys and values any more, the kept ones.
#pragma once

#include <cstdint>

#include "engine/layers/layer_buffers.h"
#include "engine/layers/pass_inputs.h"
#include "engine/model/spec/model_config.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

struct LayerRows {
  float* hidden;         // [count, hidden_dim] the residual stream
  const float* query;    // [count] rows of the layer's query_features floats, query_stride apart
  int64_t query_stride;  // floats
  QuerySpans spans;
  QuerySpans chunk_spans;  // PassInputs'
  int32_t count;
  int32_t num_decode;               // the first of them run as decode: GemmParams::decode_rows
  const int32_t* picked = nullptr;  // [count] row of the batch of each; null: 0, 1, 2, ...
};

LayerRows AllRows(const ModelConfig& config, const LayerBuffers& buffers, const PassInputs& inputs);

// Narrows *rows, which are all rows of a batch after the layers, to the kept ones, as KeepRows does.
kernels::KernelStatus KeepHidden(const ModelConfig& config, const LayerBuffers& buffers, const KeptRows& kept,
                                 LayerRows* rows);

// Narrows *rows, which are all rows of a batch with the queries of a layer, to the kept ones: copies them to the buffer
// kept_rows unless every row is kept. kept.count <= max_kept_rows where rows are copied. Returns the device's error.
kernels::KernelStatus KeepRows(const ModelConfig& config, const LayerBuffers& buffers, const KeptRows& kept,
                               int32_t layer, LayerRows* rows);

}  // namespace dunlin::engine
