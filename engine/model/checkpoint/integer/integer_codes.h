// SPDX-License-Identifier: Apache-2.0
// Whether products can have the codes of a quantised weight as they are, and how they are described then
// (kernels/api/weight_codes.h). Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/integer/integer_weight.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "kernels/api/weight_codes.h"

namespace dunlin::engine {

struct IntegerCodes {
  std::optional<kernels::CodeTraits> traits;  // codes less their middle, -2^(bits - 1) to 2^(bits - 1) - 1
  std::string reason;                         // why there are none
};

// Reads zero points, the groups of columns and, unless they are FP16, scales: not the codes. Where all zero points are
// the middle code, codes have none; where all scales are FP16 numbers, they become these; others stay FP32. None where
// codes stand for the values of a table, columns are not in the order of their groups, groups are no multiples of 16
// columns, or zero points and scales make products that FP32 rounds. Errors: as ReadFloats and ReadGroupIndex.
absl::StatusOr<IntegerCodes> DescribeCodes(const TensorSource& source, const IntegerWeight& weight);

}  // namespace dunlin::engine
