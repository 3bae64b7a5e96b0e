// Opens devices out of shared libraries (kernels/api/device_module.h). A library that was opened stays in the process:
// its code may be on a thread's stack as long as the process lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::kernels {

// Opens the CUDA device of the module at options.cuda_module, or returns null with the reason in *error: no module, one
// of another build, a table that is not complete, or what the module says of its driver and its device.
std::unique_ptr<Device> OpenDeviceModule(const DeviceOptions& options, std::string* error);

// The entries of a table that are null, by name. A device that lacks one is never offered.
std::vector<std::string> MissingEntries(const DeviceOps& ops);

}  // namespace dunlin::kernels
