// The rows that a layer works on: all of a batch, or, behind the last layer's K and V, those that something reads.
#pragma once

#include <cstdint>

#include "engine/model/model_config.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/attention.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

// Queries as a call of attention takes them: row i of the queries is row i of the hidden rows.
struct QuerySpans {
  const kernels::SequenceSpan* first = nullptr;  // [count] on the device
  int32_t count = 0;
  int32_t max_query_tokens = 0;  // of one span
  int32_t max_kv_tokens = 0;     // of one span
};

struct LayerRows {
  float* hidden;         // [count, hidden_dim] the residual stream
  const float* query;    // [count] rows query_stride floats apart, of num_heads * head_dim
  int64_t query_stride;  // floats
  QuerySpans spans;
  int32_t count;
};

// All `count` rows of a batch, in kHidden and kQkv.
LayerRows EveryRow(const ModelConfig& config, const StepBuffers& buffers, const QuerySpans& spans, int32_t count);

// Copies rows picked[0..count) behind each other into kKeptRows and makes *rows those. picked: on the device.
// spans: theirs, in that order. count <= max_kept_rows. The device's error where it fails.
kernels::KernelStatus KeepRows(const ModelConfig& config, const StepBuffers& buffers, const int32_t* picked,
                               const QuerySpans& spans, int32_t count, LayerRows* rows);

}  // namespace dunlin::engine
