// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/layer_size.h"

#include <algorithm>
#include <cmath>

namespace dunlin::tools::bench {

LayerSize Scaled(const LayerSize& published, double scale) {
  LayerSize size = published;
  const int32_t head_dim = published.hidden_dim / published.heads;
  size.heads = std::max(1, static_cast<int32_t>(std::lround(published.heads * scale)));
  size.hidden_dim = size.heads * head_dim;
  size.ffn_dim = size.hidden_dim * (published.ffn_dim / published.hidden_dim);
  size.tokens = std::max(8, static_cast<int32_t>(std::lround(published.tokens * scale)));
  return size;
}

double BytesOf(const LayerSize& size, kernels::Precision precision) {
  const double hidden = size.hidden_dim;
  const double ffn = size.ffn_dim;
  const double parameters = 4.0 * hidden * hidden + 2.0 * hidden * ffn;
  const double rows = static_cast<double>(size.batch) * size.tokens;
  // Each row: hidden, Q K V, keys and values, the input of a GEMM, and two of the MLP's width.
  const double buffers = rows * (7.0 * hidden + 2.0 * ffn) * sizeof(float);
  return parameters * (2.0 * sizeof(float) + kernels::BytesPerElement(kernels::Traits(precision).format)) +
         2.0 * buffers;
}

absl::StatusOr<FittedSize> LargestThatFits(const LayerSize& published, double scale, kernels::Precision precision,
                                           absl::FunctionRef<absl::Status(double bytes)> fits) {
  FittedSize fitted{Scaled(published, scale), absl::OkStatus()};
  while (true) {
    const absl::Status status = fits(BytesOf(fitted.size, precision));
    if (status.ok()) return fitted;
    if (fitted.refusal.ok()) fitted.refusal = status;
    if (fitted.size.heads == 1) return fitted.refusal;
    fitted.size = Scaled(published, static_cast<double>(fitted.size.heads - 1) / published.heads);
  }
}

}  // namespace dunlin::tools::bench
