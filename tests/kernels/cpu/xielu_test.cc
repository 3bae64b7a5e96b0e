// SPDX-License-Identifier: Apache-2.0
// The activation with numbers of its own (ActivateParams::curve) against FP64.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr float kCurve[] = {0.7F, 0.4F, 0.5F, -1e-6F};

class Xielu : public CpuVariants {};

TEST_P(Xielu, MatchesFp64) {
  std::vector<float> in = RandomMatrix(3, 37, 34);
  for (float& value : in) value *= 4.0F;
  in[5] = kNaN;
  in[6] = -0.0F;
  in[7] = -1e-7F;
  for (const PrecisionTraits& traits : kPrecisionTable) {
    ActivationTensor out(*device_, traits.precision, 3, 37);
    std::vector<float> kept(in.size());
    const ActivateParams params{.kind = ActivationKind::kSilu,
                                .gated = false,
                                .in = in.data(),
                                .out = &out.activation,
                                .num_rows = 3,
                                .rows_out = kept.data(),
                                .curve = kCurve};
    ASSERT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kOk);
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = in[i];
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(kept[i]));
        continue;
      }
      const double exact = x > 0.0 ? 0.7 * x * x + 0.5 * x : 0.9 * (std::expm1(std::min(x, -1e-6)) - x) + 0.5 * x;
      ASSERT_NEAR(kept[i], exact, 2e-6 * std::max(1.0, std::fabs(exact))) << x;
    }
  }
}

TEST_P(Xielu, HasNoGateAndNoLimit) {
  const std::vector<float> in(16);
  ActivationTensor out(*device_, Precision::kFp32, 1, 8);
  ActivateParams params{.kind = ActivationKind::kSilu,
                        .gated = true,
                        .in = in.data(),
                        .out = &out.activation,
                        .num_rows = 1,
                        .curve = kCurve};
  EXPECT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kInvalidArgument);
  params.gated = false;
  EXPECT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kOk);
  params.limit = 1.0F;
  EXPECT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Xielu);

}  // namespace
}  // namespace dunlin::kernels
