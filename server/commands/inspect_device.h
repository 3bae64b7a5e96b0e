// SPDX-License-Identifier: Apache-2.0
// `dunlin inspect --device KIND`: what a device offers.
#pragma once

#include <string>

#include "kernels/api/device.h"

namespace dunlin::server {

// Opens the device and prints what it is, its facts, and the backends and key dtypes that it takes. options: as in the
// config. Returns the exit status; a device that cannot be opened is a failure with its reason on stderr.
int InspectDevice(kernels::DeviceKind kind, const kernels::DeviceOptions& options, bool json);

}  // namespace dunlin::server
