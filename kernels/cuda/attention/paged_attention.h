// SPDX-License-Identifier: Apache-2.0
// Attention over pages on a device of some shape, down to its launches: validation, the kernels whose rows take a call,
// and the rows whose chosen keys are gathered. Host code: the device's table runs it, and tests over launchers of the
// host. It allocates nothing and reads no device memory.
#pragma once

#include "kernels/api/status.h"
#include "kernels/cuda/attention/kernel.h"

namespace dunlin::kernels::cuda {

// Enqueues a call on a kernel, and the merge where its keys are divided. kOutOfMemory: the workspace is too small;
// kInvalidArgument: more blocks than a grid has. Nothing is enqueued then.
KernelStatus RunAttentionCall(const DeviceShape& device, const AttentionKernel& kernel, const AttentionCall& call,
                              void* workspace, size_t workspace_bytes, Stream stream);

// As DeviceOps::paged_attention, but that errors of launches are the caller's to look for.
KernelStatus RunPagedAttention(const DeviceShape& device, const PagedAttentionParams& params, Stream stream);

}  // namespace dunlin::kernels::cuda
