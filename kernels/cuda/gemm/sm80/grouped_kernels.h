// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM's kernels, one row for each operand. A launcher enqueues one kernel and reads no device memory.
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/sm80/grouped_call.h"

namespace dunlin::kernels::cuda {

void LaunchGroupedFp32(const GroupedCall& call, Stream stream);
void LaunchGroupedBf16(const GroupedCall& call, Stream stream);
void LaunchGroupedFp16(const GroupedCall& call, Stream stream);
void LaunchGroupedFp8(const GroupedCall& call, Stream stream);
void LaunchGroupedFp8Blocks(const GroupedCall& call, Stream stream);
void LaunchGroupedCoded(const GroupedCall& call, Stream stream);

// Raises each kernel's shared memory limit; called once, when the device is opened. A cudaError_t.
int PrepareGroupedFp32();
int PrepareGroupedBf16();
int PrepareGroupedFp16();
int PrepareGroupedFp8();
int PrepareGroupedFp8Blocks();
int PrepareGroupedCoded();

}  // namespace dunlin::kernels::cuda
