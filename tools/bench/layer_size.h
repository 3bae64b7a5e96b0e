// SPDX-License-Identifier: Apache-2.0
// The sizes of the layer bench: the published ones, scaled, and what a run of one needs in memory. Pure functions.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/dtype.h"

namespace dunlin::tools::bench {

struct LayerSize {
  int32_t batch;
  int32_t tokens;  // of each sequence
  int32_t hidden_dim;
  int32_t heads;
  int32_t ffn_dim;
  bool biases;
};

// Scales heads, widths and lengths, each to at least its smallest; head_dim stays.
LayerSize Scaled(const LayerSize& published, double scale);

// Bytes of a run, host and device together, an estimate from above: the weights as loaded, packed and for the
// reference, and twice (eager and fused) the buffers and pages of all tokens.
double BytesOf(const LayerSize& size, kernels::Precision precision);

struct FittedSize {
  LayerSize size;
  absl::Status refusal;  // of the size asked for; OK when it fits
};
// The largest size up to `scale` whose bytes `fits` accepts, a head less at a time. The first error of `fits` when a
// single head does not fit.
absl::StatusOr<FittedSize> LargestThatFits(const LayerSize& published, double scale, kernels::Precision precision,
                                           absl::FunctionRef<absl::Status(double bytes)> fits);

}  // namespace dunlin::tools::bench
