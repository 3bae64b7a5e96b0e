// SPDX-License-Identifier: Apache-2.0
// Reads and writes of several residual streams. Contract: kernels/api/residual_streams.h. A row is one task's.
#pragma once

#include "kernels/api/residual_streams.h"
#include "kernels/api/status.h"

namespace dunlin::kernels::cpu {

struct DeviceContext;

KernelStatus ReadStreams(DeviceContext* context, const ReadStreamsParams& params);
KernelStatus WriteStreams(DeviceContext* context, const WriteStreamsParams& params);

}  // namespace dunlin::kernels::cpu
