// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/efficient/efficient.h"

namespace dunlin::kernels::cuda {

bool DivideEfficient(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                     void* workspace, size_t workspace_bytes, LaunchPlan* plan) {
  PlanGrid(geometry, call, plan);
  (void)PlanParts(geometry, call, device, workspace, workspace_bytes, plan);
  return true;
}

}  // namespace dunlin::kernels::cuda
