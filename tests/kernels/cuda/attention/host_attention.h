// SPDX-License-Identifier: Apache-2.0
// A paged call of the CUDA device's attention on the host. Fails the test on a write past shared memory or the
// workspace.
#pragma once

#include "kernels/api/attention.h"
#include "kernels/cuda/device/device_shape.h"

namespace dunlin::kernels::testing {

// plan: covers the call. Its workspace is not read.
void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan);
void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan,
                    const cuda::DeviceShape& device);

}  // namespace dunlin::kernels::testing
