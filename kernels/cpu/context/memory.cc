// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/context/thread_pool.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = 2 * kHugePage;     // below this a huge page would mostly be waste
constexpr size_t kTouchBytes = 8 * kHugePage;  // of one task: some milliseconds

constexpr size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Populates the pages now: a KV pool that grew while serving would hit the memory limit under load, not at start. All
// workers take part: clearing pages dominates the memory time of a start, and on a machine with several memory nodes
// the area is spread over those that the workers run on. False when memory ran out.
bool TouchPages(char* area, size_t length, ThreadPool* pool) {
  std::atomic<bool> out_of_memory{false};
  const auto touch = [&](size_t first) {
    const int result = madvise(area + first, std::min(kTouchBytes, length - first), MADV_POPULATE_WRITE);
    if (result != 0 && errno == ENOMEM) out_of_memory.store(true, std::memory_order_relaxed);
  };
  const auto num_tasks = static_cast<int64_t>((length + kTouchBytes - 1) / kTouchBytes);
  if (pool != nullptr) {
    pool->Run(num_tasks, [&](int64_t task, int) { touch(static_cast<size_t>(task) * kTouchBytes); });
  } else {
    for (int64_t task = 0; task < num_tasks; ++task) touch(static_cast<size_t>(task) * kTouchBytes);
  }
  return !out_of_memory.load(std::memory_order_relaxed);
}

// Maps one huge page more than asked and cuts both ends, so that the area starts on a huge page.
void* MapHuge(size_t bytes, ThreadPool* pool) {
  const size_t length = RoundUp(bytes, kHugePage);
  void* mapped = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* base = static_cast<char*>(mapped);
  const size_t head = RoundUp(reinterpret_cast<size_t>(base), kHugePage) - reinterpret_cast<size_t>(base);
  if (head > 0) munmap(base, head);
  if (head < kHugePage) munmap(base + head + length, kHugePage - head);
  madvise(base + head, length, MADV_HUGEPAGE);  // advice: the memory is good without it
  if (TouchPages(base + head, length, pool)) return base + head;
  munmap(base + head, length);
  return nullptr;
}

}  // namespace

void* AllocateZeroed(size_t bytes, ThreadPool* pool) {
  if (bytes == 0 || bytes > SIZE_MAX / 2) return nullptr;
  if (bytes >= kMapFrom) return MapHuge(bytes, pool);
  void* memory = std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
  if (memory != nullptr) std::memset(memory, 0, RoundUp(bytes, kAlignment));
  return memory;
}

void ReleaseMemory(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (bytes >= kMapFrom) {
    munmap(memory, RoundUp(bytes, kHugePage));
  } else {
    std::free(memory);
  }
}

}  // namespace dunlin::kernels::cpu
