// SPDX-License-Identifier: Apache-2.0
// Rotary positions on the CPU, and the pass that writes keys and values into KV pages. Contract:
// kernels/api/layer_ops.h. Thread rule: any thread; the work runs on context->pool, nothing is allocated.
#pragma once

#include "kernels/api/layer_ops.h"
#include "kernels/api/status.h"

namespace dunlin::kernels::cpu {

struct DeviceContext;

KernelStatus RotaryTable(DeviceContext* context, const RotaryTableParams& params);
KernelStatus RotateAndStoreKv(DeviceContext* context, const RotateAndStoreKvParams& params);

}  // namespace dunlin::kernels::cpu
