// SPDX-License-Identifier: Apache-2.0
// Products of the wgmma GEMM on the host's machine, and what FP64 says of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "tests/kernels/cuda/gemm/host_wgmma.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {

// A GEMM of rounded random operands, with NaN after their last rows; the output has a guard on both sides of a row.
struct GemmProduct {
  GemmProduct(Precision precision, int32_t num_rows, int64_t columns, int64_t depth, int64_t out_stride,
              int32_t scale_block = 0)
      : weight(precision, columns, depth, scale_block),
        in(precision, num_rows, depth, scale_block),
        bias(RandomValues(columns, 3)),
        before(RandomValues(num_rows * out_stride, 4)),
        packed(weight.Weight()),
        stride(out_stride) {
    FillRandom(weight, 1);
    FillRandom(in, 2);
    activation = {.data = in.view().data, .precision = precision, .capacity_rows = num_rows};
    activation.columns = static_cast<int32_t>(depth);
    activation.scale_block = scale_block;
  }
  // Rows [first, first + count) into `out`, to which the residual is added in place.
  TileCall Call(float* out, int64_t first, int32_t count, int32_t multiprocessors) const {
    const GemmParams params{&activation, &packed, bias.data(), out, out, stride, activation.capacity_rows};
    TileCall call = TileCallOf(params, first, count, false, nullptr);
    call.multiprocessors = multiprocessors;
    return call;
  }
  template <typename Tile>
  std::vector<float> Run(int64_t first, int32_t count, int32_t multiprocessors, uint64_t seed) const {
    std::vector<float> out = before;
    EXPECT_EQ(RunWgmma<Tile>(Call(out.data(), first, count, multiprocessors), {.seed = seed}), "");
    return out;
  }

  HostMatrix weight;
  HostMatrix in;
  std::vector<float> bias;
  std::vector<float> before;
  PackedWeight packed;
  Activation activation;
  int64_t stride;
};

inline double Fp64SumOf(const GemmProduct& product, int64_t m, int64_t n, double* magnitude) {
  double sum = product.bias[static_cast<size_t>(n)];
  *magnitude = std::fabs(sum);
  for (int64_t k = 0; k < product.in.view().columns; ++k) {
    const double term = double{product.weight.At(n, k)} * product.in.At(m, k);
    sum += term;
    *magnitude += std::fabs(term);
  }
  return sum;
}

inline void ExpectMatchesFp64(const GemmProduct& product, const std::vector<float>& out) {
  const int64_t depth = product.in.view().columns;
  for (int64_t m = 0; m < product.in.view().rows; ++m) {
    for (int64_t n = 0; n < product.stride; ++n) {
      const auto at = static_cast<size_t>(m * product.stride + n);
      if (n >= product.weight.view().rows) {
        ASSERT_EQ(out[at], product.before[at]) << "between the rows nothing is written";
        continue;
      }
      double magnitude = 0;
      const double expected = Fp64SumOf(product, m, n, &magnitude) + product.before[at];
      magnitude += std::fabs(double{product.before[at]});
      ASSERT_NEAR(out[at], expected, static_cast<double>(depth + 8) * 0x1p-23 * magnitude) << m << ", " << n;
    }
  }
}

// A launch that begins before the kernel that writes its inputs, their scales and the residual (`before`, in the
// outputs): these are NaN until a thread waits for that kernel, and the result is the same. run(out, options): a launch
// of 5 rows.
template <typename Run>
void ExpectOnlyWeightsBeforeTheWait(const MatrixView& in, const std::vector<float>& before, const Run& run) {
  const auto bytes = static_cast<size_t>(MatrixBytes(in.precision, in.rows, in.columns, in.scale_block));
  const std::vector<unsigned char> inputs(in.data, in.data + bytes);
  std::vector<float> expected = before;
  ASSERT_EQ(run(&expected, MachineOptions{}), "");
  std::vector<float> out;
  std::vector<float> written;  // by the blocks before; else the residual
  MachineOptions options;
  options.preceding_begins = [&] {
    written = out;
    std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(in.data, bytes, static_cast<unsigned char>(0xFF));
  };
  options.preceding_ends = [&] {
    std::ranges::copy(written, out.begin());
    std::ranges::copy(inputs, in.data);
  };
  for (options.seed = 1; options.seed < 6; ++options.seed) {
    out = before;
    EXPECT_EQ(run(&out, options), "") << options.seed;
    EXPECT_EQ(out, expected) << options.seed;
  }
  options.mistake = Mistake::kSkippedPrecedingWait;
  out = before;
  (void)run(&out, options);
  EXPECT_NE(out, expected) << "nothing was waited for";
}

}  // namespace dunlin::kernels::cuda
