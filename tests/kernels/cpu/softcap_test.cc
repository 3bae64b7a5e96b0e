// SPDX-License-Identifier: Apache-2.0
// The soft cap on logits and the scale of gathered rows, against FP64, and their part of the bit contract.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class Softcap : public CpuVariants {};

TEST_P(Softcap, MatchesFp64OverTheWholeRange) {
  for (const float cap : {0.5F, 3.0F, 30.0F, 50.0F}) {
    std::vector<float> values;
    for (float x = -400.0F; x <= 400.0F; x += 0.01F) values.push_back(x);
    const std::vector<float> in = values;
    const SoftcapParams params{values.data(), cap, 1, static_cast<int32_t>(values.size())};
    ASSERT_EQ(device_->ops->softcap(device_->context, params), KernelStatus::kOk);
    for (size_t i = 0; i < in.size(); ++i) {
      const double wide = cap;
      ASSERT_NEAR(values[i], wide * std::tanh(in[i] / wide), 2.5e-7 * wide) << cap << " at " << in[i];
    }
  }
}

// The cuts between threads fall inside rows: an element's bits depend on its value alone.
TEST_P(Softcap, OfAValueIsTheSameEverywhereAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = RandomMatrix(3, 50021, 66);
  values[40000] = kNaN;
  values[40001] = kInfinity;
  values[40002] = -kInfinity;
  std::vector<float> again = values;
  std::vector<float> alone(values.begin() + 77777, values.begin() + 77778);
  ASSERT_EQ(device_->ops->softcap(device_->context, {values.data(), 2.0F, 3, 50021}), KernelStatus::kOk);
  const auto other = Open(GetParam(), 5);
  ASSERT_EQ(other->ops->softcap(other->context, {again.data(), 2.0F, 1, 3 * 50021}), KernelStatus::kOk);
  ASSERT_EQ(device_->ops->softcap(device_->context, {alone.data(), 2.0F, 1, 1}), KernelStatus::kOk);
  EXPECT_EQ(alone[0], values[77777]);
  EXPECT_EQ(std::memcmp(values.data(), again.data(), values.size() * sizeof(float)), 0);
  EXPECT_TRUE(std::isnan(values[40000]));
  EXPECT_EQ(values[40001], 2.0F);
  EXPECT_EQ(values[40002], -2.0F);
}

TEST_P(Softcap, GatheredRowsAreScaled) {
  const auto values = RandomMatrix(5, 33, 67);
  const std::vector<int32_t> ids = {4, 0};
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, values, 5, 33);
    const auto gather = [&](float scale, bool accumulate) {
      std::vector<float> out(2 * 33, 1.0F);
      const GatherRowsParams params{&weight->weight, ids.data(), out.data(), 2, accumulate, scale};
      EXPECT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
      return out;
    };
    const auto plain = gather(1.0F, false);
    const auto scaled = gather(5.5F, false);
    const auto added = gather(5.5F, true);
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(scaled[i], 5.5F * plain[i]) << traits.name;
      EXPECT_EQ(added[i], 1.0F + 5.5F * plain[i]) << traits.name;
    }
  }
}

TEST_P(Softcap, RefuseBrokenParametersAndAcceptNoRows) {
  std::vector<float> in(8);
  const DeviceOps& ops = *device_->ops;
  EXPECT_EQ(ops.softcap(device_->context, {in.data(), 1.0F, 0, 8}), KernelStatus::kOk);
  EXPECT_EQ(ops.softcap(device_->context, {in.data(), 0.0F, 1, 8}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.softcap(device_->context, {in.data(), kNaN, 1, 8}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(ops.softcap(device_->context, {nullptr, 1.0F, 1, 8}), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Softcap);

}  // namespace
}  // namespace dunlin::kernels
