// SPDX-License-Identifier: Apache-2.0
// How much memory this process may hold: what the machine and every control group on the way to the root leave it; and
// how much it may map: what its own limits leave.
// Reads the operating system at each call; `root` is "" for the real one, so that a test can lay out its own tree.
// Source: kernel documentation, cgroup-v2.rst (memory.max, memory.high, memory.current, memory.stat),
// cgroup-v1/memory.rst (memory.limit_in_bytes, memory.usage_in_bytes, total_*_file), filesystems/proc.rst (meminfo,
// statm, limits).
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <string>

namespace dunlin::server {

struct MemoryLimit {
  size_t bytes = 0;    // what this process holds already included; 0: unknown
  std::string source;  // for messages: "the machine", "cgroup /sys/fs/cgroup/memory/...", "ulimit -v"
};

// The smallest of: the machine's available memory, and for each group its limit without what others in it hold. Memory
// of files counts as free, because the kernel takes it back.
MemoryLimit FindMemoryLimit(const std::string& root);

// The smaller of what RLIMIT_AS (ulimit -v) and RLIMIT_DATA (ulimit -d) leave: what may still be mapped, and what this
// process holds, as if it mapped nothing that it does not hold. Unlike a group's, these limits are spent as memory is
// mapped, touched or not, stacks of threads and pages of files included; beyond them an allocation fails.
MemoryLimit FindMappedLimit(const std::string& root);

// The threads of this process; 0 if they cannot be counted.
int CountThreads(const std::string& root);

// What this process holds now: pages that are in memory; 0 if it cannot be read.
size_t ResidentMemory(const std::string& root);

// What this process may still take: FindMemoryLimit without ResidentMemory; SIZE_MAX if that is unknown.
size_t MemoryLeft(const std::string& root);

}  // namespace dunlin::server
