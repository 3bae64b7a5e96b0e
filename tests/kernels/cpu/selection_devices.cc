// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention/selection_devices.h"

namespace dunlin::kernels {

std::vector<std::string> SelectionDeviceNames() {
  return AvailableCpuVariants();
}

std::unique_ptr<Device> OpenSelectionDevice(const std::string& name, int division) {
  std::string error;
  return OpenDevice(DeviceKind::kCpu, {division, name}, &error);
}

}  // namespace dunlin::kernels
