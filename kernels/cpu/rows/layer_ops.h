// SPDX-License-Identifier: Apache-2.0
// The CPU device's entries for operations over rows. Contract: kernels/api/layer_ops.h.
// Each checks its parameters, then runs on the context's pool and returns when the work is done.
#pragma once

#include "kernels/api/layer_ops.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus Norm(DeviceContext* context, const NormParams& params);
KernelStatus Softcap(DeviceContext* context, const SoftcapParams& params);
KernelStatus Quantize(DeviceContext* context, const QuantizeParams& params);
KernelStatus Activate(DeviceContext* context, const ActivateParams& params);
KernelStatus Add(DeviceContext* context, const AddParams& params);
KernelStatus CopyRows(DeviceContext* context, const CopyRowsParams& params);
KernelStatus CopyColumns(DeviceContext* context, const CopyColumnsParams& params);

}  // namespace dunlin::kernels::cpu
