// SPDX-License-Identifier: Apache-2.0
// The devices of a model's ranks: GPUs, or contexts of the CPU that share its compute threads. On a machine with
// several memory nodes (NUMA) each rank is bound to one: its threads run there, and what they touch first lies there.
// Source: kernel documentation, ABI/stable/sysfs-devices-node. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

struct MemoryNode {
  int id = 0;
  std::vector<int> cpus;  // ascending
};

// "0-3,8" as numbers, ascending; what is no such list is left out.
std::vector<int> ParseCpuList(const std::string& text);

// Nodes that are online and have processors out of `usable`, cut to these. root: "" for the real system; reads
// <root>/sys/devices/system/node.
std::vector<MemoryNode> FindMemoryNodes(const std::string& root, const std::vector<int>& usable);

// Processors that the calling thread may run on.
std::vector<int> AllowedCpus();
// Binds the calling thread; does nothing for an empty list. What the system refuses stays as it is.
void BindToCpus(const std::vector<int>& cpus);

// Binds the calling thread, and those that it starts meanwhile, while this lives.
class ScopedCpus {
 public:
  explicit ScopedCpus(const std::vector<int>& cpus);
  ~ScopedCpus();
  ScopedCpus(const ScopedCpus&) = delete;
  ScopedCpus& operator=(const ScopedCpus&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing was bound
};

// [num_ranks] The processors of each rank: of one of several nodes, consecutive ranks on the same or on neighbours;
// empty lists where there is one node or none.
std::vector<std::vector<int>> CpusOfRanks(int32_t num_ranks, const std::vector<MemoryNode>& nodes);
// The same on this machine, for what the calling thread may use.
std::vector<std::vector<int>> CpusOfRanks(int32_t num_ranks);

// [num_ranks] Compute threads of each rank, out of num_threads: as equal as possible, at least one.
std::vector<int> ThreadsOfRanks(int32_t num_ranks, int num_threads);

// Opens a device for each rank of a model on `whole`, which was opened with `options`. On the CPU the ranks share as
// many threads as it has. On CUDA each has the device of its number in `ids`, which are as many, or of its rank where
// ids is empty. FAILED_PRECONDITION, with the reason, where one cannot be opened, and for devices that are not alike.
absl::StatusOr<std::vector<std::unique_ptr<kernels::Device>>> OpenRankDevices(const kernels::Device& whole,
                                                                              const kernels::DeviceOptions& options,
                                                                              int32_t num_ranks,
                                                                              const std::vector<int32_t>& ids = {});

}  // namespace dunlin::engine
