// SPDX-License-Identifier: Apache-2.0
// FP64 references of the operations of recurrent layers: one column of a head's state, or one channel, over a
// sequence's rows. Formulas: kernels/api/recurrent.h and ssm_scan.h. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/ssm_scan.h"

namespace dunlin::tools::bench {

// An output, and the sum of the magnitudes of its terms.
struct RecurrentSum {
  double value;
  double magnitude;
};

// Addresses of the parameters are host memory here. Of sequence `sequence`, a value for each of its rows; the state is
// that before the call.
std::vector<RecurrentSum> ExactDeltaColumn(const kernels::DeltaScanParams& params, int32_t sequence, int32_t head,
                                           int32_t column);
std::vector<RecurrentSum> ExactSsmColumn(const kernels::SsmScanParams& params, int32_t sequence, int32_t head,
                                         int32_t column);
// REQUIRES: no gates.
std::vector<RecurrentSum> ExactConvChannel(const kernels::CausalConvParams& params, int32_t sequence, int32_t channel);

}  // namespace dunlin::tools::bench
