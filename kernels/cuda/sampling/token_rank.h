// SPDX-License-Identifier: Apache-2.0
// A token's rank in a raw row of logits (TokenOutput::rank). Counts are exact in FP64 for any number of lanes.
#pragma once

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// How many logits are at least that of lane 0's token; the other lanes' `token` is not read. Every lane gets the count.
template <typename Lanes>
DUNLIN_HD int32_t TokenRank(const Lanes& lanes, const float* logits, int32_t vocab_size, int32_t token) {
  const float value = logits[lanes.Max(lanes.index() == 0 ? static_cast<uint32_t>(token) : 0U)];
  double counts[1] = {};
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) {
    if (logits[i] >= value) counts[0] += 1.0;
  }
  lanes.Sums(&counts);
  return static_cast<int32_t>(counts[0]);
}

}  // namespace dunlin::kernels::cuda
