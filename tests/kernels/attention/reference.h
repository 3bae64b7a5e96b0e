// SPDX-License-Identifier: Apache-2.0
// References for one row of attention: exact in FP64, and the unfused computation in the dtype, whose error is the
// measure of what is acceptable.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/dtype.h"

namespace dunlin::kernels::testing {

// One row's problem; pointers to numbers representable in the dtype. Keys begin..limit-1 are seen; none gives zeros.
struct ReferenceRow {
  const float* q;     // [head_dim]
  const float* keys;  // [limit, head_dim]
  const float* values;
  int32_t limit;
  int32_t head_dim;
  float scale;
  int32_t begin = 0;
  float softcap = 0.0F;    // 0: none
  int32_t v_head_dim = 0;  // 0: head_dim
  float slope = 0.0F;      // ALiBi: + slope * (key - position)
  int32_t position = 0;
  const float* bias = nullptr;    // [limit], or null
  const uint8_t* mask = nullptr;  // [limit] 0: not seen; or null
  const float* sink = nullptr;    // a logit without a key; or null

  int32_t value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
};

std::vector<double> ExactRow(const ReferenceRow& row);

// S in FP32, softmax in FP32, P rounded to dtype, P V in FP32, output rounded to dtype.
std::vector<float> UnfusedRow(const ReferenceRow& row, DType dtype);

// The largest errors seen over the rows of a case.
class ErrorBound {
 public:
  // actual: [head_dim], what the kernel gave.
  void Add(const std::vector<double>& exact, const std::vector<float>& unfused, const float* actual);

  double actual() const { return actual_; }
  double unfused() const { return unfused_; }
  // At most twice the unfused error, plus what FP32 arithmetic costs on values of unit range.
  double limit() const { return 2 * unfused_ + 2e-6 + rounding_; }
  // Few outputs may by luck be exact in the unfused computation: then an output's own rounding is allowed too.
  void AllowRounding(double rounding) { rounding_ = rounding; }
  bool holds() const { return actual_ <= limit(); }  // false for NaN

 private:
  double actual_ = 0;
  double unfused_ = 0;
  double rounding_ = 0;
};

}  // namespace dunlin::kernels::testing
