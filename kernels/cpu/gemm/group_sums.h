// SPDX-License-Identifier: Apache-2.0
// What products in groups take of activation rows before they start: the sums of a row's groups of columns, which those
// with zero points or minima subtract, or the rows rounded to 8 bits.
#pragma once

#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::kernels::cpu {

// Writes the FP32 sums of each `group` columns, 16 or 32, of the first num_rows rows behind them (activation_layout.h),
// in an order that depends on the row alone. Runs on the context's pool.
void WriteGroupSums(DeviceContext* context, const Activation& activation, int32_t group, int32_t num_rows);

// Rounds the first num_rows rows for products of PackedWeight::int8_inputs with a format (activation_layout.h). Runs on
// the context's pool.
void RoundInputs(DeviceContext* context, const Activation& activation, WeightFormat format, int32_t num_rows);

}  // namespace dunlin::kernels::cpu
