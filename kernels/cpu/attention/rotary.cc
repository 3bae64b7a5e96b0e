// SPDX-License-Identifier: Apache-2.0
// The table of rotations of a step, and rotations of the last elements of heads. Source: Su et al. 2021; angles and
// their rounding as in Hugging Face transformers: the FP32 product of position and inverse frequency, its cosine and
// sine rounded to FP32, times the attention factor.
#include "kernels/cpu/attention/rotary.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/context/context.h"
#include "kernels/cpu/context/row_tasks.h"

namespace dunlin::kernels::cpu {

KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params) {
  if (params.num_tokens < 0 || params.rotary_dim < 0 || params.rotary_dim % 2 != 0) {
    return KernelStatus::kInvalidArgument;
  }
  const int32_t half = params.rotary_dim / 2;
  constexpr int64_t kTokensPerTask = 16;
  const int64_t num_tasks = (params.num_tokens + kTokensPerTask - 1) / kTokensPerTask;
  context->pool.Run(num_tasks, [&](int64_t task, int) {
    const int64_t end = std::min<int64_t>((task + 1) * kTokensPerTask, params.num_tokens);
    for (int64_t t = task * kTokensPerTask; t < end; ++t) {
      float* cos_row = params.cos_sin + t * params.rotary_dim;
      float* sin_row = cos_row + half;
      const auto position = static_cast<float>(params.positions[t]);
      for (int32_t i = 0; i < half; ++i) {
        const double angle = position * params.inv_freq[i];  // rounded to FP32 before it is widened
        cos_row[i] = static_cast<float>(std::cos(angle)) * params.attention_factor;
        sin_row[i] = static_cast<float>(std::sin(angle)) * params.attention_factor;
      }
    }
  });
  return KernelStatus::kOk;
}

namespace {

void NormHead(const RotateHeadsParams& params, float* head) {
  double squares = 0.0;
  for (int32_t d = 0; d < params.head_dim; ++d) squares += static_cast<double>(head[d]) * head[d];
  const float factor = 1.0F / std::sqrt(static_cast<float>(squares / params.head_dim) + params.epsilon);
  for (int32_t d = 0; d < params.head_dim; ++d) head[d] *= factor;
  for (int32_t d = 0; params.norm != nullptr && d < params.head_dim; ++d) head[d] *= params.norm[d];
}

void RotateTail(const RotateHeadsParams& params, const float* cos_sin, float* head) {
  float* const rotated = head + params.head_dim - params.rotary_dim;
  const int32_t half = params.rotary_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const float sine = params.back ? -cos_sin[half + i] : cos_sin[half + i];
    const float a = rotated[2 * i];
    const float b = rotated[2 * i + 1];
    rotated[2 * i] = a * cos_sin[i] - b * sine;
    rotated[2 * i + 1] = b * cos_sin[i] + a * sine;
  }
}

}  // namespace

KernelStatus RotateHeads(DeviceContext* context, const RotateHeadsParams& params) {
  const int64_t features = int64_t{params.num_heads} * params.head_dim;
  if (params.num_rows < 0 || params.num_heads < 1 || params.head_dim < 1 || params.row_stride < features ||
      params.rotary_dim < 0 || params.rotary_dim > params.head_dim || params.rotary_dim % 2 != 0 ||
      params.epsilon < 0.0F) {
    return KernelStatus::kInvalidArgument;
  }
  const int64_t heads = int64_t{params.num_rows} * params.num_heads;
  ForEachRow(context, heads, params.head_dim, [&](int64_t i) {
    const int64_t row = i / params.num_heads;
    float* head = params.rows + row * params.row_stride + i % params.num_heads * params.head_dim;
    if (params.epsilon > 0.0F) NormHead(params, head);
    RotateTail(params, params.cos_sin + row * params.rotary_dim, head);
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
