// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_devices.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr int kCpusMax = CPU_SETSIZE;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Of a CPU's description, "cpu (avx2, 2 threads)".
int ThreadsIn(std::string_view description) {
  const size_t word = description.rfind(" thread");
  if (word == std::string_view::npos) return 1;
  const size_t before = description.find_last_not_of("0123456789", word - 1);
  return std::max(1, std::atoi(std::string(description.substr(before + 1, word - before - 1)).c_str()));
}

}  // namespace

std::vector<int> ParseCpuList(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    char* end = nullptr;
    const long first = std::strtol(range.c_str(), &end, 10);
    if (end == range.c_str()) continue;
    const long last = *end == '-' ? std::strtol(end + 1, &end, 10) : first;
    for (long i = std::max(first, 0L); i <= last && i < kCpusMax; ++i) numbers.push_back(static_cast<int>(i));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<MemoryNode> FindMemoryNodes(const std::string& root, const std::vector<int>& usable) {
  const std::string folder = root + "/sys/devices/system/node";
  std::vector<MemoryNode> nodes;
  for (const int id : ParseCpuList(FirstLine(folder + "/online"))) {
    MemoryNode node{id, {}};
    for (const int cpu : ParseCpuList(FirstLine(absl::StrCat(folder, "/node", id, "/cpulist")))) {
      if (std::binary_search(usable.begin(), usable.end(), cpu)) node.cpus.push_back(cpu);
    }
    if (!node.cpus.empty()) nodes.push_back(node);
  }
  return nodes;
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

void BindToCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

ScopedCpus::ScopedCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  before_ = AllowedCpus();
  BindToCpus(cpus);
}

ScopedCpus::~ScopedCpus() {
  BindToCpus(before_);
}

std::vector<std::vector<int>> CpusOfRanks(int32_t num_ranks, const std::vector<MemoryNode>& nodes) {
  std::vector<std::vector<int>> cpus(static_cast<size_t>(num_ranks));
  if (nodes.size() < 2) return cpus;
  for (size_t rank = 0; rank < cpus.size(); ++rank) cpus[rank] = nodes[rank * nodes.size() / cpus.size()].cpus;
  return cpus;
}

std::vector<std::vector<int>> CpusOfRanks(int32_t num_ranks) {
  return CpusOfRanks(num_ranks, FindMemoryNodes("", AllowedCpus()));
}

std::vector<int> ThreadsOfRanks(int32_t num_ranks, int num_threads) {
  std::vector<int> threads;
  threads.reserve(static_cast<size_t>(num_ranks));
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    threads.push_back(std::max(1, num_threads * (rank + 1) / num_ranks - num_threads * rank / num_ranks));
  }
  return threads;
}

absl::StatusOr<std::vector<std::unique_ptr<kernels::Device>>> OpenRankDevices(const kernels::Device& whole,
                                                                              const kernels::DeviceOptions& options,
                                                                              int32_t num_ranks,
                                                                              const std::vector<int32_t>& ids) {
  const kernels::DeviceKind kind = whole.ops->kind;
  const bool shares_threads = kind == kernels::DeviceKind::kCpu;
  const std::vector<int> threads = ThreadsOfRanks(num_ranks, shares_threads ? ThreadsIn(whole.description) : num_ranks);
  const std::vector<std::vector<int>> cpus = CpusOfRanks(num_ranks);
  std::vector<std::unique_ptr<kernels::Device>> ranks;
  for (size_t rank = 0; rank < threads.size(); ++rank) {
    const ScopedCpus bound(cpus[rank]);  // the pool's threads inherit it
    kernels::DeviceOptions own = options;
    if (shares_threads) own.num_threads = threads[rank];
    own.cuda_device = ids.empty() ? static_cast<int32_t>(rank) : ids[rank];
    own.cublas_algorithm_cache.clear();  // one device's choices, in one file
    std::string error;
    ranks.push_back(kernels::OpenDevice(kind, own, &error));
    if (ranks.back() == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("the device of rank ", rank, " cannot be opened: ", error));
    }
    if (shares_threads || ranks.back()->description == ranks.front()->description) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the devices of a model's ranks are not alike: ", ranks.front()->description, " of rank 0, ",
                     ranks.back()->description, " of rank ", rank, " (models[].parallel.devices)"));
  }
  return ranks;
}

}  // namespace dunlin::engine
