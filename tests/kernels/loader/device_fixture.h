// SPDX-License-Identifier: Apache-2.0
// A module's device beside the CPU device, for tests that compare the two.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/loader/device_memory.h"
#include "tests/kernels/loader/open_module.h"

namespace dunlin::kernels {

inline std::vector<float> Random(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// The parameter is the module's path; without its device the test is skipped with the reason.
class DeviceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string error;
    cpu_ = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
    ASSERT_NE(cpu_, nullptr) << error;
    device_ = OpenModule(GetParam(), &error);
    if (device_ == nullptr) GTEST_SKIP() << "no device behind " << GetParam() << ": " << error;
  }
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Device> device_;
};

}  // namespace dunlin::kernels
