// SPDX-License-Identifier: Apache-2.0
// How much a server's memory plan may come to: a share of what the machine and its control groups leave, or of what the
// limits of the process leave (ulimit -v, ulimit -d), whichever is smaller.
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/config/config.h"
#include "server/models/memory_limit.h"
#include "server/models/thread_demand.h"

namespace dunlin::server {

// What the plan reads of the machine.
struct HostFacts {
  MemoryLimit limit;
  size_t resident = 0;       // bytes that this process holds, with its devices open
  MemoryLimit mapped_limit;  // bytes 0: none
  int num_threads = 0;       // of this process
  size_t stack_bytes = 0;    // mapped for a thread
  HostCpus cpus;
};
HostFacts ReadHostFacts();

struct PlanLimit {
  size_t bytes = 0;
  std::string source;
  std::string ulimit;         // "ulimit -v" where that is what limits: beyond it allocations fail; else empty
  int32_t share_percent = 0;  // of what the source leaves
};
// memory.limit_bytes, or memory.share_percent of the machine's, but no more than that share of what the process may
// map once the stacks of the config's threads are.
PlanLimit PlanLimitOf(const Config& config, const HostFacts& host);

}  // namespace dunlin::server
