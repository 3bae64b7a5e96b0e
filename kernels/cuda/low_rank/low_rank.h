// SPDX-License-Identifier: Apache-2.0
// The CUDA device's entry for low-rank adapters. Contract: kernels/api/low_rank.h.
#pragma once

#include "kernels/api/low_rank.h"
#include "kernels/api/status.h"
#include "kernels/cuda/device/context.h"

namespace dunlin::kernels::cuda {

KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params);

}  // namespace dunlin::kernels::cuda
