// SPDX-License-Identifier: Apache-2.0
// The CPU device's entries for layers with a state per sequence. Contract: kernels/api/recurrent.h.
// Each checks its parameters, then runs on the context's pool and returns when the work is done.
#pragma once

#include "kernels/api/recurrent.h"
#include "kernels/api/ssm_scan.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus CausalConv(DeviceContext* context, const CausalConvParams& params);
KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params);
KernelStatus SsmScan(DeviceContext* context, const SsmScanParams& params);
KernelStatus GatedGroupNorm(DeviceContext* context, const GatedGroupNormParams& params);
KernelStatus RowGate(DeviceContext* context, const RowGateParams& params);

}  // namespace dunlin::kernels::cpu
