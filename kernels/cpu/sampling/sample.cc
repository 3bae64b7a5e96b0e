// SPDX-License-Identifier: Apache-2.0
// The operation `sample` of the CPU device: the rows of a step are the tasks of the compute pool. A row's result
// depends on the row alone, so it does not matter which thread takes it.
#include "kernels/cpu/sampling/sample.h"

#include <algorithm>

#include "kernels/cpu/sampling/row_sampler.h"

namespace dunlin::kernels::cpu {
namespace {

bool Valid(const SampleParams& params) {
  if (params.logits == nullptr || params.rows == nullptr || params.out == nullptr || params.workspace == nullptr) {
    return false;
  }
  return params.vocab_size > 0 && params.num_rows >= 0;
}

// Workspaces in use at once: one a thread, or one a row where there are fewer rows.
int32_t NumSamplers(const DeviceContext& context, int32_t num_rows) {
  return std::max(1, std::min<int32_t>(num_rows, context.pool.num_threads()));
}

}  // namespace

size_t SampleWorkspace(const DeviceContext* context, int32_t num_rows, int32_t vocab_size) {
  return static_cast<size_t>(NumSamplers(*context, num_rows)) * RowSampler::WorkspaceBytes(vocab_size);
}

KernelStatus Sample(DeviceContext* context, const SampleParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const int32_t num_rows = params.num_rows;
  if (params.workspace_bytes < SampleWorkspace(context, num_rows, params.vocab_size)) {
    return KernelStatus::kOutOfMemory;
  }
  const size_t row_bytes = RowSampler::WorkspaceBytes(params.vocab_size);
  const bool one_each = num_rows < context->pool.num_threads();
  context->pool.Run(num_rows, [&](int64_t i, int worker) {
    const size_t index = one_each ? static_cast<size_t>(i) : static_cast<size_t>(worker);
    RowSampler sampler(params.vocab_size, static_cast<std::byte*>(params.workspace) + index * row_bytes);
    const SampleRow& row = params.rows[i];
    const float* logits = params.logits + i * params.vocab_size;
    SampledToken& out = params.out[i];
    out.valid = row.scored_token >= 0 ? sampler.Score(logits, row.scored_token, row.logprobs, &out.token)
                                      : sampler.Sample(row, logits, params.words, &out.token);
  });
  return KernelStatus::kOk;
}

KernelStatus TakeDrawn(DeviceContext* /*context*/, const TakeDrawnParams& params) {
  if (params.drawn == nullptr || params.rows == nullptr || params.token_ids == nullptr || params.num_tokens < 0) {
    return KernelStatus::kInvalidArgument;
  }
  for (int32_t i = 0; i < params.num_tokens; ++i) TakeDrawnAt(params, i);
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
