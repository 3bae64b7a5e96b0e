// SPDX-License-Identifier: Apache-2.0
// A paged call of the CUDA device's attention on the host. Fails the test on a write past shared memory or the
// workspace.
#pragma once

#include <vector>

#include "kernels/api/attention.h"
#include "kernels/cuda/device/device_shape.h"
#include "tests/kernels/attention/attention_runner.h"

namespace dunlin::kernels::testing {

// plan: covers the call. Its workspace is not read.
void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan);
void RunPagedOnHost(const PagedAttentionParams& params, const PagedAttentionPlan& plan,
                    const cuda::DeviceShape& device);

// Compute capability 9.0, of 132 multiprocessors.
const AttentionRunner& Hopper();

// The slots of each launch that lists chosen keys, so far; tests clear it.
std::vector<int32_t>& ListedSlots();

}  // namespace dunlin::kernels::testing
