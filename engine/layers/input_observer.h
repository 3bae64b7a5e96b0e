// SPDX-License-Identifier: Apache-2.0
// Sees the inputs of a model's linear operations as they were before rounding: for calibration that needs more of them
// than their largest magnitude.
#pragma once

#include <cstdint>

#include "kernels/api/status.h"

namespace dunlin::engine {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // rows: [num_rows, columns] FP32 in device memory, contiguous, valid during the call. input: as InputIndex or
  // HeadInputIndex. Another status than kOk ends the pass with INTERNAL.
  virtual kernels::KernelStatus OnInput(int32_t input, const float* rows, int32_t num_rows, int32_t columns) = 0;
};

}  // namespace dunlin::engine
