// The last-level cache that a run can use, by which it tells what must come from memory.
#pragma once

#include <cstddef>
#include <string>

namespace dunlin::server::bench {

// Bytes of the last-level caches that the process's processors share, each counted once; 0 where neither the kernel nor
// the C library knows. root: "" for the real system; reads <root>/sys/devices/system/cpu/cpu*/cache/. The kernel's word
// goes first: to a guest the C library gives the caches of a whole socket, most of which belongs to others.
size_t LastLevelCacheBytes(const std::string& root = "");

}  // namespace dunlin::server::bench
