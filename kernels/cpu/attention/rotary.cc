// SPDX-License-Identifier: Apache-2.0
// The table of rotations of a step. Source: Su et al. 2021; angles and their rounding as in Hugging Face transformers:
// the FP32 product of position and inverse frequency, its cosine and sine rounded to FP32, times the attention factor.
#include "kernels/cpu/attention/rotary.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/context/context.h"

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

}  // namespace dunlin::kernels::cpu
