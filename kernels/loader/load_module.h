// SPDX-License-Identifier: Apache-2.0
// Opens devices in shared libraries (kernels/api/device_module.h). An opened library is never closed, because its code
// may be on a thread's stack for the life of the process. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::kernels {

// Opens the CUDA device of the module at options.cuda_module, or returns null with the reason in *error: no module, one
// of another build, a missing entry in its table, or the module's own reason (driver, device, library).
std::unique_ptr<Device> OpenDeviceModule(const DeviceOptions& options, std::string* error);

// The names of a table's null entries. A device with one is refused.
std::vector<std::string> MissingEntries(const DeviceOps& ops);

}  // namespace dunlin::kernels
