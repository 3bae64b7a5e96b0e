// SPDX-License-Identifier: Apache-2.0
// The CPU device whose numbers the CUDA device's code is held against: portable code, one thread.
#pragma once

#include <string>

#include "kernels/api/device.h"

namespace dunlin::kernels::cuda {

inline Device& Cpu() {
  static std::string error;
  static const auto device = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
  return *device;
}

}  // namespace dunlin::kernels::cuda
