// SPDX-License-Identifier: Apache-2.0
// While it lives, the device chooses GEMM algorithms by timing them (DeviceOps::set_tuning): for what a runtime
// computes before READY. Thread rule: the thread that creates it.
#pragma once

#include <string>

#include "kernels/api/device.h"

namespace dunlin::engine {

class Tuning {
 public:
  // device and notice outlive the object. *notice is set to what should be logged, if anything.
  Tuning(const kernels::Device* device, std::string* notice)
      : device_(*device), notice_(notice), on_(device_.ops->set_tuning(device_.context, true, notice)) {}
  ~Tuning() {
    if (on_) (void)device_.ops->set_tuning(device_.context, false, notice_);
  }
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // False if the device has no choice of algorithms.
  bool on() const { return on_; }

 private:
  const kernels::Device& device_;
  std::string* const notice_;
  const bool on_;
};

}  // namespace dunlin::engine
