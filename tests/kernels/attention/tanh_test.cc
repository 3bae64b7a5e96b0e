// SPDX-License-Identifier: Apache-2.0
// The softcap's tanh, through the table's adjust_row: every 37th FP32 number, against double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/attention/neon_bf16/tiles.h"
#include "kernels/cpu/attention/tile_ops.h"
#include "tests/kernels/attention/devices.h"

namespace dunlin::kernels::cpu {
namespace {

// tanh of each x by a table: softcap 1 leaves the scaled score's tanh.
void Tanh(const TileOps& ops, std::vector<float>* x) {
  ops.adjust_row({.s = x->data(),
                  .count = static_cast<int>(x->size()),
                  .scale = 1.0F,
                  .softcap = 1.0F,
                  .slope = 0.0F,
                  .distance = 0,
                  .bias = nullptr,
                  .bias_dtype = DType::kF32,
                  .mask = nullptr});
}

double LargestError(const TileOps& ops) {
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr size_t kAtOnce = 1 << 14;
  double largest = 0;
  uint32_t bits = 1;
  while (bits < kInfinity) {
    std::vector<float> in;
    for (; in.size() < kAtOnce && bits < kInfinity; bits += 1777) {
      in.push_back(std::bit_cast<float>(bits | (bits % 2 << 31)));
    }
    std::vector<float> out = in;
    Tanh(ops, &out);
    for (size_t i = 0; i < in.size(); ++i) {
      const double exact = std::tanh(static_cast<double>(in[i]));
      // Below 2^-126 a result has fewer bits: there the bound is one unit of the smallest denormal.
      const double error = std::max(0.0, std::fabs(out[i] - exact) - 0x1p-149) / std::fabs(exact);
      largest = std::isnan(error) ? error : std::max(largest, error);
    }
  }
  return largest;
}

std::vector<const TileOps*> Tables() {
  std::vector<const TileOps*> tables = {&kPortableF32Tiles};
  for ([[maybe_unused]] const std::string& variant : AvailableCpuVariants()) {
#ifdef DUNLIN_CPU_AVX512
    if (variant == "avx512") tables.push_back(&kAvx512F32Tiles);
#endif
#ifdef DUNLIN_CPU_AVX512_BF16
    if (variant == "avx512_bf16") tables.push_back(&kAvx512Bf16DotTiles);
#endif
#ifdef DUNLIN_CPU_NEON
    if (variant == "neon") tables.push_back(&kNeonF32Tiles);
#endif
#ifdef DUNLIN_CPU_NEON_BF16
    if (variant == "neon_bf16") tables.push_back(&kNeonBf16DotTiles);
#endif
  }
  return tables;
}

TEST(TanhTest, StaysWithinItsStatedError) {
  for (const TileOps* ops : Tables()) {
    const double error = LargestError(*ops);
    EXPECT_LE(error, 1.35e-7);
  }
}

TEST(TanhTest, TakesTheEnds) {
  for (const TileOps* ops : Tables()) {
    std::vector<float> x = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 3e38F};
    Tanh(*ops, &x);
    EXPECT_EQ(x[0], 0.0F);
    EXPECT_EQ(x[1], 0.0F);
    EXPECT_EQ(x[2], 1.0F);
    EXPECT_EQ(x[3], -1.0F);
    EXPECT_TRUE(std::isnan(x[4]));
    EXPECT_EQ(x[5], 1.0F);
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu
