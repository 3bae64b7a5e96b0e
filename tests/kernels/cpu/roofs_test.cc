// SPDX-License-Identifier: Apache-2.0
// The roofs of a machine: rates that are rates, on memory too small to be a measurement, and what is refused.
#include "kernels/api/roofs.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

class RoofsTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = size_t{4} << 20;

  void SetUp() override {
    device_ = testing_cpu::Open("");
    ASSERT_NE(device_, nullptr);
    memory_ = device_->ops->allocate(device_->context, kBytes);
    ASSERT_NE(memory_, nullptr);
  }
  void TearDown() override { device_->ops->release(device_->context, memory_, kBytes); }

  KernelStatus Measure(const RoofParams& params) { return device_->ops->measure_roofs(device_->context, params); }
  KernelStatus ProbeRoof(const RoofProbe& probe) { return device_->ops->probe_roof(device_->context, probe); }
  RoofProbe Probe(const char* unit) {
    return {.unit = unit,
            .seconds = 1e-3,
            .memory = memory_,
            .memory_bytes = kBytes,
            .position = &position_,
            .rate = &rate_};
  }

  std::unique_ptr<Device> device_;
  void* memory_ = nullptr;
  size_t position_ = 0;
  double rate_ = 0.0;
};

TEST_F(RoofsTest, AProbeIsNearTheRoofItProbes) {
  Roofs roofs;
  ASSERT_EQ(Measure({memory_, kBytes, 2, &roofs}), KernelStatus::kOk);
  EXPECT_EQ(roofs.num_threads, 2);
  const double highest = roofs.fastest[static_cast<int>(Peak::kBf16)].flops;
  for (const Peak peak : {Peak::kFp32, Peak::kBf16}) {
    const PeakRate& fastest = roofs.fastest[static_cast<int>(peak)];
    const PeakRate& own = roofs.own[static_cast<int>(peak)];
    EXPECT_LE(own.flops, fastest.flops);
    EXPECT_LE(fastest.flops, highest);
    for (const PeakRate& rate : {fastest, own}) {
      rate_ = 0.0;
      ASSERT_EQ(ProbeRoof(Probe(rate.unit)), KernelStatus::kOk) << rate.unit;
      EXPECT_GT(rate_, highest / 1e3) << rate.unit << ": a busy machine is slow, not a thousand times slower";
      EXPECT_LT(rate_, highest * 1e2) << rate.unit;
    }
  }
}

TEST_F(RoofsTest, Fp16AndFp8AreMultipliedAsOtherKinds) {
  Roofs roofs;
  ASSERT_EQ(Measure({memory_, kBytes, 1, &roofs}), KernelStatus::kOk);
  for (const Peak peak : {Peak::kFp16, Peak::kFp8}) {
    EXPECT_EQ(roofs.fastest[static_cast<int>(peak)].flops, 0.0);
    EXPECT_EQ(roofs.own[static_cast<int>(peak)].flops, 0.0);
  }
}

TEST_F(RoofsTest, ReadingGoesOnWhereItStopped) {
  ASSERT_EQ(ProbeRoof(Probe(nullptr)), KernelStatus::kOk);
  EXPECT_GT(rate_, 0.0);
  EXPECT_LT(position_, kBytes);
  RoofProbe tiny = Probe(nullptr);
  tiny.memory_bytes = 5 * (size_t{256} << 10);
  tiny.seconds = 1e-9;  // each thread reads one chunk by each of two loops
  position_ = 0;
  ASSERT_EQ(ProbeRoof(tiny), KernelStatus::kOk);
  EXPECT_EQ(position_, 4 * (size_t{256} << 10));
}

TEST_F(RoofsTest, WhatCannotBeProbedIsRefused) {
  RoofProbe probe = Probe("abacus");
  EXPECT_EQ(ProbeRoof(probe), KernelStatus::kInvalidArgument);
  probe = Probe("sse2");
  probe.seconds = 0.0;
  EXPECT_EQ(ProbeRoof(probe), KernelStatus::kInvalidArgument);
  probe = Probe(nullptr);
  probe.memory = nullptr;
  EXPECT_EQ(ProbeRoof(probe), KernelStatus::kInvalidArgument);
  Roofs roofs;
  EXPECT_EQ(Measure({memory_, 64, 2, &roofs}), KernelStatus::kInvalidArgument);
}

}  // namespace
}  // namespace dunlin::kernels
