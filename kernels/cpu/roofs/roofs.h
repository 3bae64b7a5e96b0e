// The CPU's part of MeasureRoofs and ProbeRoof, on the context's pool. Contract: kernels/api/roofs.h.
#pragma once

#include "kernels/api/roofs.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context.h"

namespace dunlin::kernels::cpu {

KernelStatus MeasureRoofs(DeviceContext* context, const RoofParams& params);
KernelStatus ProbeRoof(DeviceContext* context, const RoofProbe& probe);

}  // namespace dunlin::kernels::cpu
