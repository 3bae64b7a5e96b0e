// SPDX-License-Identifier: Apache-2.0
// Launchers of the attention kernels. Each enqueues on the stream and reads no device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/launch_plan.h"

namespace dunlin::kernels::cuda {

void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
// BF16 or E4M3 keys; FP16 keys.
void LaunchFlashBf16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
void LaunchFlashFp16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
// Completes a launch whose plan has parts.
void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);

// Raises each kernel's shared memory limit; called once, when the device is opened. shared_bytes: what a block may
// have.
cudaError_t PrepareEfficient();
cudaError_t PrepareFlashBf16(int32_t shared_bytes);
cudaError_t PrepareFlashFp16(int32_t shared_bytes);
cudaError_t PrepareMath();

}  // namespace dunlin::kernels::cuda
