// The roofs of a machine: rates that are rates, on memory too small to be a measurement, and what is refused.
#include "kernels/api/roofs.h"

#include <gtest/gtest.h>

#include <cstring>
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
  ASSERT_EQ(MeasureRoofs(device_.get(), {memory_, kBytes, 2, &roofs}), KernelStatus::kOk);
  EXPECT_EQ(roofs.num_threads, 2);
  EXPECT_LE(roofs.variant_fp32_flops, roofs.fp32_flops);
  EXPECT_LE(roofs.fp32_flops, roofs.bf16_flops);
  for (const char* unit : {roofs.fp32_unit, roofs.bf16_unit, roofs.variant_fp32_unit, roofs.variant_bf16_unit}) {
    rate_ = 0.0;
    if (std::strlen(unit) == 0) continue;
    ASSERT_EQ(ProbeRoof(device_.get(), Probe(unit)), KernelStatus::kOk) << unit;
    EXPECT_GT(rate_, roofs.bf16_flops / 1e3) << unit << ": a busy machine is slow, not a thousand times slower";
    EXPECT_LT(rate_, roofs.bf16_flops * 1e2) << unit;
  }
}

TEST_F(RoofsTest, ReadingGoesOnWhereItStopped) {
  ASSERT_EQ(ProbeRoof(device_.get(), Probe(nullptr)), KernelStatus::kOk);
  EXPECT_GT(rate_, 0.0);
  EXPECT_LT(position_, kBytes);
  RoofProbe tiny = Probe(nullptr);
  tiny.memory_bytes = 3 * (size_t{256} << 10);
  tiny.seconds = 1e-9;  // each thread reads one chunk
  position_ = 0;
  ASSERT_EQ(ProbeRoof(device_.get(), tiny), KernelStatus::kOk);
  EXPECT_EQ(position_, 2 * (size_t{256} << 10));
}

TEST_F(RoofsTest, WhatCannotBeProbedIsRefused) {
  RoofProbe probe = Probe("abacus");
  EXPECT_EQ(ProbeRoof(device_.get(), probe), KernelStatus::kInvalidArgument);
  probe = Probe("sse2");
  probe.seconds = 0.0;
  EXPECT_EQ(ProbeRoof(device_.get(), probe), KernelStatus::kInvalidArgument);
  probe = Probe(nullptr);
  probe.memory = nullptr;
  EXPECT_EQ(ProbeRoof(device_.get(), probe), KernelStatus::kInvalidArgument);
  Roofs roofs;
  EXPECT_EQ(MeasureRoofs(device_.get(), {memory_, 64, 2, &roofs}), KernelStatus::kInvalidArgument);
}

}  // namespace
}  // namespace dunlin::kernels
