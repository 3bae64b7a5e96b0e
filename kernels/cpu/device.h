// SPDX-License-Identifier: Apache-2.0
// The CPU device: its row of the device table, opened with one of the variants that the processor can run.
#pragma once

#include <memory>
#include <string>

#include "kernels/api/device.h"

namespace dunlin::kernels::cpu {

// Opens the CPU device with options.cpu_variant and options.num_threads, or returns null with the reason in *error: an
// unknown variant, one that this processor cannot run, a number of threads out of range, no memory for their scratch.
std::unique_ptr<Device> OpenCpuDevice(const DeviceOptions& options, std::string* error);

}  // namespace dunlin::kernels::cpu
