// SPDX-License-Identifier: Apache-2.0
// Opens devices: one row per DeviceKind. A new device is its folder and a row here.
#include <string>

#include "kernels/api/device.h"
#include "kernels/api/usable_cpus.h"
#include "kernels/cpu/context/thread_pool.h"
#include "kernels/cpu/device.h"
#include "kernels/loader/load_module.h"

namespace dunlin::kernels {
namespace {

struct DeviceRow {
  DeviceKind kind;
  std::unique_ptr<Device> (*open)(const DeviceOptions& options, std::string* error);
};
constexpr DeviceRow kDevices[] = {
    {DeviceKind::kCpu, cpu::OpenCpuDevice},
    {DeviceKind::kCuda, OpenDeviceModule},
};

}  // namespace

std::unique_ptr<Device> OpenDevice(DeviceKind kind, const DeviceOptions& options, std::string* error) {
  for (const DeviceRow& row : kDevices) {
    if (row.kind == kind) return row.open(options, error);
  }
  *error = "no device of kind " + std::to_string(static_cast<int>(kind));  // not a DeviceKind: it has no name
  return nullptr;
}

int UsableCpus() {
  return cpu::UsableCpus();
}

}  // namespace dunlin::kernels
