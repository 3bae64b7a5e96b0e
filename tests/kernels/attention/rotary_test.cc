// SPDX-License-Identifier: Apache-2.0
// The rotary table against double arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/attention/devices.h"

namespace dunlin::kernels::testing {
namespace {

TEST(RotaryTableTest, MatchesDoubleOfTheFp32Angle) {
  constexpr int32_t kHalf = 32;
  const std::vector<int32_t> positions = {0, 1, 2, 100, 4095, 131071, 7};
  std::vector<float> inv_freq(kHalf);
  for (int32_t i = 0; i < kHalf; ++i) {
    inv_freq[static_cast<size_t>(i)] = static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / kHalf));
  }
  for (const float factor : {1.0F, 1.2079F}) {
    std::vector<float> table(positions.size() * 2 * kHalf, NAN);
    Device& device = CpuDevice("", 2);
    ASSERT_EQ(device.ops->rotary_table(device.context, {.positions = positions.data(),
                                                        .inv_freq = inv_freq.data(),
                                                        .attention_factor = factor,
                                                        .rotary_dim = 2 * kHalf,
                                                        .cos_sin = table.data(),
                                                        .num_tokens = static_cast<int32_t>(positions.size())}),
              KernelStatus::kOk);
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t i = 0; i < kHalf; ++i) {
        const float angle = static_cast<float>(positions[t]) * inv_freq[i];
        EXPECT_NEAR(table[t * 2 * kHalf + i], std::cos(static_cast<double>(angle)) * factor, 1.3e-7);
        EXPECT_NEAR(table[t * 2 * kHalf + kHalf + i], std::sin(static_cast<double>(angle)) * factor, 1.3e-7);
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::testing
