// SPDX-License-Identifier: Apache-2.0
// The unit of DeviceOps::back.
#pragma once

#include <cstddef>

namespace dunlin::kernels {

// A multiple of every system's page: x86-64 has pages of 4 KiB, ARM of 4, 16 or 64.
inline constexpr size_t kBackingUnit = size_t{64} << 10;

}  // namespace dunlin::kernels
