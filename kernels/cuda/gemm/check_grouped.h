// SPDX-License-Identifier: Apache-2.0
// The check of rows of the grouped table (CheckGemms), each in the device's memory.
#pragma once

#include "kernels/cuda/device/context.h"
#include "kernels/cuda/gemm/kernel.h"

namespace dunlin::kernels::cuda {

// *agrees: as for the rows of kernel_table.cc, with each group's product by the kernel that takes it alone.
KernelStatus CheckGroupedRow(DeviceContext* context, const GroupedGemmKernel& kernel, bool* agrees);

}  // namespace dunlin::kernels::cuda
