// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "kernels/cpu/context/thread_pool.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallPage = 4096;  // the smallest of any system
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = 2 * kHugePage;     // below this a huge page would mostly be waste
constexpr size_t kTouchBytes = 8 * kHugePage;  // of one task: some milliseconds

constexpr size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Gives memory to a range that begins on a page. False when there is none: for lack of it, or because what is left is
// broken or belongs to another pool of huge pages. A kernel before 5.14, or a filter of system calls, does not know the
// advice: then each page is written.
bool Populate(char* area, size_t length) {
  int result = 0;
  do {
    result = madvise(area, length, MADV_POPULATE_WRITE);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return true;
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return false;
  for (size_t i = 0; i < length; i += kSmallPage) static_cast<volatile char*>(area)[i] = 0;
  return true;
}

// Populates the pages now: a KV pool that grew while serving would hit the memory limit under load, not at start. All
// workers take part: clearing pages dominates the memory time of a start, and on a machine with several memory nodes
// the area is spread over those that the workers run on. False when memory ran out.
bool TouchPages(char* area, size_t length, ThreadPool* pool) {
  std::atomic<bool> out_of_memory{false};
  const auto touch = [&](size_t first) {
    if (!Populate(area + first, std::min(kTouchBytes, length - first))) {
      out_of_memory.store(true, std::memory_order_relaxed);
    }
  };
  const auto num_tasks = static_cast<int64_t>((length + kTouchBytes - 1) / kTouchBytes);
  if (pool != nullptr) {
    pool->Run(num_tasks, [&](int64_t task, int) { touch(static_cast<size_t>(task) * kTouchBytes); });
  } else {
    for (int64_t task = 0; task < num_tasks; ++task) touch(static_cast<size_t>(task) * kTouchBytes);
  }
  return !out_of_memory.load(std::memory_order_relaxed);
}

// Maps one huge page more than asked and cuts both ends, so that the area starts on a huge page. length: of whole ones.
char* MapHuge(size_t length) {
  void* mapped = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* base = static_cast<char*>(mapped);
  const size_t head = RoundUp(reinterpret_cast<size_t>(base), kHugePage) - reinterpret_cast<size_t>(base);
  if (head > 0) munmap(base, head);
  if (head < kHugePage) munmap(base + head + length, kHugePage - head);
  madvise(base + head, length, MADV_HUGEPAGE);  // advice: the memory is good without it
  return base + head;
}

void* AllocateHuge(size_t bytes, ThreadPool* pool) {
  const size_t length = RoundUp(bytes, kHugePage);
  char* area = MapHuge(length);
  if (area == nullptr || TouchPages(area, length, pool)) return area;
  munmap(area, length);
  return nullptr;
}

// Whether one page of a reserved area's memory may be a huge one. Those of a system with pages of 16 or 64 KiB are of
// 32 or 512 MiB: one page's entries in the tables fill a page, 8 bytes each. Backing would give all of that at once,
// more than its caller asked the system about.
bool HugePagesAreSmall() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return page * (page / 8) <= kHugePage;
}

// Has the pages of an area lie on all memory nodes in turn, whichever thread touches them first. False where there are
// several and the system does not let the process choose.
bool Interleave(char* area, size_t length) {
  std::string online;
  std::ifstream("/sys/devices/system/node/online") >> online;
  if (online.empty() || online == "0") return true;
  constexpr unsigned long kMaxNodes = 1024;  // of the kernel's largest configuration
  std::array<unsigned long, kMaxNodes / (8 * sizeof(unsigned long))> nodes{};
  return syscall(SYS_get_mempolicy, nullptr, nodes.data(), kMaxNodes, nullptr, MPOL_F_MEMS_ALLOWED) == 0 &&
         syscall(SYS_mbind, area, length, MPOL_INTERLEAVE, nodes.data(), kMaxNodes, 0) == 0;
}

}  // namespace

void* AllocateZeroed(size_t bytes, ThreadPool* pool) {
  if (bytes == 0 || bytes > SIZE_MAX / 2) return nullptr;
  if (bytes >= kMapFrom) return AllocateHuge(bytes, pool);
  void* memory = std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
  if (memory != nullptr) std::memset(memory, 0, RoundUp(bytes, kAlignment));
  return memory;
}

void* ReserveZeroed(size_t bytes) {
  if (bytes < kMapFrom || bytes > SIZE_MAX / 2) return nullptr;
  const size_t length = RoundUp(bytes, kHugePage);
  char* area = MapHuge(length);
  if (area == nullptr) return nullptr;
  if (!HugePagesAreSmall()) madvise(area, length, MADV_NOHUGEPAGE);
  if (Interleave(area, length)) return area;
  munmap(area, length);
  return nullptr;
}

// By huge pages: while one is populated, no other thread of the process can map memory.
bool BackMemory(void* data, size_t bytes) {
  auto* area = static_cast<char*>(data);
  for (size_t i = 0; i < bytes; i += kHugePage) {
    if (Populate(area + i, std::min(kHugePage, bytes - i))) continue;
    madvise(area, bytes, MADV_DONTNEED);
    return false;
  }
  return true;
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
