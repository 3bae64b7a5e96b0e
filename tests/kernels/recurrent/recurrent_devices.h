// SPDX-License-Identifier: Apache-2.0
// The devices that a test program holds to the contract of recurrent layers' operations (kernels/api/recurrent.h). Each
// program that has these tests defines the two functions for its own: the CPU's variants, the CUDA device's code on the
// host, the devices of modules.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::kernels {

std::vector<std::string> RecurrentDeviceNames();

// A device whose five operations take host memory. division: how the work is cut, which must show in no bit; of the CPU
// the number of threads. Null where there is no such device here, with the reason.
std::unique_ptr<Device> OpenRecurrentDevice(const std::string& name, int division, std::string* reason);

class RecurrentDevices : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = Open(2);
    if (device_ == nullptr) GTEST_SKIP() << reason_;
  }
  std::unique_ptr<Device> Open(int division) { return OpenRecurrentDevice(GetParam(), division, &reason_); }

  std::unique_ptr<Device> device_;

 private:
  std::string reason_;
};

#define DUNLIN_FOR_EVERY_RECURRENT_DEVICE(Suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(::dunlin::kernels::RecurrentDeviceNames()), \
                           [](const auto& name) { return name.param; })

}  // namespace dunlin::kernels
