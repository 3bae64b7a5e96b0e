// SPDX-License-Identifier: Apache-2.0
// The devices on which the tests of sparse attention run, of a test program: the CPU's variants, or the CUDA device's
// operations on the host. Their memory is the host's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::kernels {

std::vector<std::string> SelectionDeviceNames();

// division: of the work, which changes no bit.
std::unique_ptr<Device> OpenSelectionDevice(const std::string& name, int division);

}  // namespace dunlin::kernels
