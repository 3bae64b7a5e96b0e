// SPDX-License-Identifier: Apache-2.0
// The sums of an activation row's groups of columns, which products with zero points or minima subtract.
#pragma once

#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::kernels::cpu {

// Writes the FP32 sums of each `group` columns, 16 or 32, of the first num_rows rows behind them (activation_layout.h),
// in an order that depends on the row alone. Runs on the context's pool.
void WriteGroupSums(DeviceContext* context, const Activation& activation, int32_t group, int32_t num_rows);

}  // namespace dunlin::kernels::cpu
