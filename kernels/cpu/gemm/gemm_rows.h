// SPDX-License-Identifier: Apache-2.0
// The parts of a product that gemm.cc shares with grouped_gemm.cc, which multiplies some rows of an input at a time.
#pragma once

#include <cstdint>

#include "kernels/api/gemm.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

bool IsValid(const KernelTable& kernels, const GemmParams& params);

// What a product of this weight reads besides the first num_rows rows themselves: written next to them.
void PrepareInput(DeviceContext* context, const Activation& in, const PackedWeight& weight, int32_t num_rows);

// Rows [first_row, params.num_rows) of a valid product whose input is prepared. With `next`, not TakesWholeRows(*next).
void MultiplyRows(DeviceContext* context, const GemmParams& params, int64_t first_row);

// Whether the next product's input can be rounded only when a row is complete. Then the product stores floats in the
// rows, which have room for them (FloatsIn), and RoundFloats rounds them in place.
bool TakesWholeRows(const Activation& next);
Activation FloatsIn(const Activation& next);
KernelStatus RoundFloats(DeviceContext* context, const Activation& floats, Activation* next, int32_t num_rows);

}  // namespace dunlin::kernels::cpu
