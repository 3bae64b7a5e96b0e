// SPDX-License-Identifier: Apache-2.0
// How much memory this process may hold: what the machine and every control group on the way to the root leave it.
// Reads the operating system at each call; `root` is "" for the real one, so that a test can lay out its own tree.
// Source: kernel documentation, cgroup-v2.rst (memory.max, memory.high, memory.current, memory.stat),
// cgroup-v1/memory.rst (memory.limit_in_bytes, memory.usage_in_bytes, total_*_file) and filesystems/proc.rst (meminfo).
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <string>

namespace dunlin::server {

struct MemoryLimit {
  size_t bytes = 0;    // what this process holds already included; 0: unknown
  std::string source;  // for messages: "the machine", "cgroup /sys/fs/cgroup/memory/..."
};

// The smallest of: the machine's available memory, and for each group its limit without what others in it hold. Memory
// of files counts as free, because the kernel takes it back.
MemoryLimit FindMemoryLimit(const std::string& root);

// What this process holds now: pages that are in memory; 0 if it cannot be read.
size_t ResidentMemory(const std::string& root);

// What this process may still take: FindMemoryLimit without ResidentMemory; SIZE_MAX if that is unknown.
size_t MemoryLeft(const std::string& root);

}  // namespace dunlin::server
