// SPDX-License-Identifier: Apache-2.0
// The size of the last-level caches that a run can use: larger buffers must come from memory.
#pragma once

#include <cstddef>
#include <string>

namespace dunlin::tools::bench {

// Bytes of the last-level caches that the process's processors share, each counted once; 0 where neither the kernel nor
// the C library knows. root: "" for the real system; reads <root>/sys/devices/system/cpu/cpu*/cache/. The kernel takes
// precedence: in a virtual machine the C library reports the caches of a whole socket, most of which others use.
size_t LastLevelCacheBytes(const std::string& root = "");

}  // namespace dunlin::tools::bench
