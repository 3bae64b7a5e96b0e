// SPDX-License-Identifier: Apache-2.0
// Packs the codes and scales of a quantised checkpoint, unchanged (kernels/api/weight_codes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

// Columns [first_column, first_column + columns) of a panel, from the rows of the codes from first_row on.
// staged: scratch for a slice of the columns (pack_slice.h), a byte an element. REQUIRES: Holds(weight.format, ...).
void PackCodes(const PackedWeight& weight, const WeightCodes& codes, int64_t first_row, int64_t panel,
               int64_t first_column, int64_t columns, std::byte* staged);

}  // namespace dunlin::kernels::cpu
