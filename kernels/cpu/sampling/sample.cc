// SPDX-License-Identifier: Apache-2.0
// The operation `sample` of the CPU device: row after row, because an engine's rows of a step are few.
#include "kernels/cpu/launchers.h"
#include "kernels/cpu/sampling/row_sampler.h"

namespace dunlin::kernels::cpu {
namespace {

bool Valid(const SampleParams& params) {
  if (params.logits == nullptr || params.rows == nullptr || params.out == nullptr || params.workspace == nullptr) {
    return false;
  }
  return params.vocab_size > 0 && params.num_rows >= 0;
}

}  // namespace

size_t SampleWorkspace(int32_t vocab_size) {
  return RowSampler::WorkspaceBytes(vocab_size);
}

KernelStatus Sample(DeviceContext* /*context*/, const SampleParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.workspace_bytes < SampleWorkspace(params.vocab_size)) return KernelStatus::kOutOfMemory;
  RowSampler sampler(params.vocab_size, static_cast<std::byte*>(params.workspace));
  for (int32_t i = 0; i < params.num_rows; ++i) {
    const SampleRow& row = params.rows[i];
    const float* logits = params.logits + int64_t{i} * params.vocab_size;
    SampledToken& out = params.out[i];
    out.valid = row.scored_token >= 0 ? sampler.Score(logits, row.scored_token, row.logprobs, &out.token)
                                      : sampler.Sample(row, logits, params.words, &out.token);
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
