// While it lives, the device chooses the algorithms of its products by time (DeviceOps::set_tuning): around what a
// runtime computes before it serves. Thread rule: the thread that makes it.
#pragma once

#include <string>

#include "kernels/api/device.h"

namespace dunlin::engine {

class Tuning {
 public:
  // device and notice outlive the object. *notice: what a log should say, else left alone.
  Tuning(const kernels::Device* device, std::string* notice)
      : device_(*device), notice_(notice), on_(device_.ops->set_tuning(device_.context, true, notice)) {}
  ~Tuning() {
    if (on_) (void)device_.ops->set_tuning(device_.context, false, notice_);
  }
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // False: the device has nothing to choose.
  bool on() const { return on_; }

 private:
  const kernels::Device& device_;
  std::string* const notice_;
  const bool on_;
};

}  // namespace dunlin::engine
