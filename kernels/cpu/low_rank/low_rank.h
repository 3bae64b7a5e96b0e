// SPDX-License-Identifier: Apache-2.0
// The CPU device's entry for low-rank adapters. Contract: kernels/api/low_rank.h.
#pragma once

#include "kernels/api/low_rank.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params);

}  // namespace dunlin::kernels::cpu
