// SPDX-License-Identifier: Apache-2.0
// One pass over a row of logits. A thread has four loads in flight: 1,024 threads then have 16 KiB, about what a
// multiprocessor receives from L2 during the latency of a load (some 270 cycles of 64 bytes).
#pragma once

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// Calls body(id, logit) for a lane's share of the ids, ascending: index, index + count, ...
template <typename Lanes, typename Body>
DUNLIN_HD void ForEachLogit(const Lanes& lanes, const float* logits, int32_t vocab_size, const Body& body) {
  constexpr int32_t kLoads = 4;
  const int32_t step = lanes.count();
  lanes.BeginPass();
  int32_t id = lanes.index();
  DUNLIN_NO_UNROLL
  for (; id + (kLoads - 1) * step < vocab_size; id += kLoads * step) {
    float values[kLoads];
    DUNLIN_UNROLL
    for (int32_t k = 0; k < kLoads; ++k) values[k] = logits[id + k * step];
    DUNLIN_UNROLL
    for (int32_t k = 0; k < kLoads; ++k) body(id + k * step, values[k]);
  }
  DUNLIN_NO_UNROLL
  for (; id < vocab_size; id += step) body(id, logits[id]);
}

}  // namespace dunlin::kernels::cuda
