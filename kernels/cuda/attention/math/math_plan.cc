// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/attention/math/math.h"

namespace dunlin::kernels::cuda {
namespace {

int64_t ScoreBytes(int32_t max_kv_tokens) {
  return MathScoreFloats(max_kv_tokens) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

size_t MathPagedBytes(const BlockGeometry& /*geometry*/, const PagedAttentionPlan& plan, const DeviceShape& device) {
  const int64_t each = ScoreBytes(std::max(plan.max_kv_tokens, 1));
  return static_cast<size_t>(each * std::clamp<int64_t>(kPagedScoreBytesMax / each, 1, device.blocks_to_fill()));
}

size_t MathDenseBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& /*device*/) {
  return static_cast<size_t>(TasksOf(geometry, call) * ScoreBytes(call.max_kv_tokens));
}

bool DivideMath(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* workspace,
                size_t workspace_bytes, LaunchPlan* plan) {
  PlanGrid(geometry, call, plan);
  const int64_t tasks = plan->blocks;
  const int64_t each = ScoreBytes(call.max_kv_tokens);
  const int64_t wanted = IsDense(call) ? tasks : std::min(tasks, device.blocks_to_fill());
  plan->blocks = each == 0 ? wanted : std::min(wanted, static_cast<int64_t>(workspace_bytes) / each);
  plan->SetOwn(MathPlan{.scores = static_cast<float*>(workspace),
                        .score_floats = MathScoreFloats(call.max_kv_tokens),
                        .workers = plan->blocks});
  return plan->blocks >= (IsDense(call) ? wanted : std::min<int64_t>(wanted, 1));
}

}  // namespace dunlin::kernels::cuda
