// SPDX-License-Identifier: Apache-2.0
// The CPU's variants as the devices of the tests of recurrent layers' operations.
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels {

std::vector<std::string> RecurrentDeviceNames() {
  return AvailableCpuVariants();
}

std::unique_ptr<Device> OpenRecurrentDevice(const std::string& name, int division, std::string* reason) {
  return OpenDevice(DeviceKind::kCpu, {division, name}, reason);
}

}  // namespace dunlin::kernels
