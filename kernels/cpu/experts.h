// SPDX-License-Identifier: Apache-2.0
// The CPU device's entries for mixtures of experts; the others are in their rooms. Contract: kernels/api/experts.h.
// Each checks its parameters, then runs on the context's pool and returns when the work is done.
#pragma once

#include "kernels/api/experts.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params);
KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params);

}  // namespace dunlin::kernels::cpu
