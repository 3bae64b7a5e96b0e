// The attention kernels' launches. Each enqueues on the stream and reads nothing that lies on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/launch_plan.h"

namespace dunlin::kernels::cuda {

void LaunchEfficient(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
// Keys in BF16 or E4M3, and in FP16.
void LaunchFlashBf16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
void LaunchFlashFp16(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
void LaunchMath(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);
// Ends a launch whose plan has parts.
void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, cudaStream_t stream);

// Allows each kernel the shared memory it takes; once, when the device is opened.
cudaError_t PrepareEfficient();
cudaError_t PrepareFlashBf16();
cudaError_t PrepareFlashFp16();
cudaError_t PrepareMath();

}  // namespace dunlin::kernels::cuda
