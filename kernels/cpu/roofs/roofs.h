// SPDX-License-Identifier: Apache-2.0
// measure_roofs and probe_roof of the CPU device, on the context's pool. Contract: kernels/api/roofs.h.
#pragma once

#include "kernels/api/roofs.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params);
KernelStatus ProbeRoof(DeviceContext* context, const RoofProbe& probe);

}  // namespace dunlin::kernels::cpu
