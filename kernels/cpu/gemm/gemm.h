// SPDX-License-Identifier: Apache-2.0
// The CPU device's entries for matrix products and the packing of their weights. Contracts: kernels/api/.
// Each checks its parameters, then runs on the context's pool and returns when the work is done.
#pragma once

#include "kernels/api/grouped_gemm.h"
#include "kernels/api/layer_ops.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus PackWeight(DeviceContext* context, const PackWeightParams& params);
KernelStatus Gemm(DeviceContext* context, const GemmParams& params);
bool GemmFuses(DeviceContext* context, const GemmParams& params);
KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params);
KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params);
KernelStatus GatherRows(DeviceContext* context, const GatherRowsParams& params);

}  // namespace dunlin::kernels::cpu
