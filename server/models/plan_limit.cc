// SPDX-License-Identifier: Apache-2.0
#include "server/models/plan_limit.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/api/usable_cpus.h"
#include "server/models/thread_demand.h"

namespace dunlin::server {
namespace {

// Of the thread that compiles a grammar (GRAMMAR_STACK_BYTES), one at a time.
constexpr size_t kGrammarStackBytes = size_t{64} << 20;
// Threads that gRPC may still start, and those of loading, where counting says that all are there.
constexpr int kLaterThreads = 4;

// With its guard page.
size_t StackBytes() {
  pthread_attr_t attributes;
  size_t stack = 0;
  size_t guard = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return stack + guard;
}

// Of threads that are still to come.
size_t StacksToCome(const Config& config, const HostFacts& host) {
  const ThreadDemand demand = ThreadsOf(config, host.cpus);
  const int threads = std::max(demand.total() - host.num_threads, demand.models + kLaterThreads);
  return static_cast<size_t>(threads) * host.stack_bytes + kGrammarStackBytes;
}

PlanLimit ShareOf(size_t bytes, const std::string& source, int32_t percent) {
  PlanLimit share;
  share.bytes = bytes / 100 * static_cast<size_t>(percent);
  share.source = absl::StrCat(percent, "% of what ", source, " leaves");
  share.share_percent = percent;
  return share;
}

PlanLimit MachineLimit(const Config& config, const MemoryLimit& limit) {
  PlanLimit given;
  given.source = "memory.limit_bytes";
  given.bytes = config.memory.limit_bytes;
  if (given.bytes != kAutoBytes) return given;
  if (limit.bytes > 0) return ShareOf(limit.bytes, limit.source, config.memory.share_percent);
  given.source = "no limit found";
  given.bytes = std::numeric_limits<size_t>::max() / 2;
  return given;
}

}  // namespace

HostFacts ReadHostFacts() {
  HostFacts facts;
  facts.limit = FindMemoryLimit("");
  facts.resident = ResidentMemory("");
  facts.mapped_limit = FindMappedLimit("");
  facts.num_threads = CountThreads("");
  facts.stack_bytes = StackBytes();
  facts.cpus.machine = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_CONF), 1L));
  facts.cpus.usable = kernels::UsableCpus();
  return facts;
}

PlanLimit PlanLimitOf(const Config& config, const HostFacts& host) {
  PlanLimit machine = MachineLimit(config, host.limit);
  if (host.mapped_limit.bytes == 0) return machine;
  const size_t stacks = std::min(StacksToCome(config, host), host.mapped_limit.bytes);
  PlanLimit mapped = ShareOf(host.mapped_limit.bytes - stacks, host.mapped_limit.source, config.memory.share_percent);
  mapped.ulimit = host.mapped_limit.source;
  return mapped.bytes < machine.bytes ? mapped : machine;
}

}  // namespace dunlin::server
