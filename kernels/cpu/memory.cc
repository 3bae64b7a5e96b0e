#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace dunlin::kernels::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = 2 * kHugePage;  // below this a huge page would mostly be waste

constexpr size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Maps one huge page more than asked and cuts both ends, so that the area starts on a huge page.
void* MapHuge(size_t bytes) {
  const size_t length = RoundUp(bytes, kHugePage);
  void* mapped = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* base = static_cast<char*>(mapped);
  const size_t head = RoundUp(reinterpret_cast<size_t>(base), kHugePage) - reinterpret_cast<size_t>(base);
  if (head > 0) munmap(base, head);
  if (head < kHugePage) munmap(base + head + length, kHugePage - head);
  madvise(base + head, length, MADV_HUGEPAGE);  // advice: the memory is good without it
  // The pages are taken now: a KV pool that grew while serving would meet the memory limit under load, not at start.
  if (madvise(base + head, length, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM) {
    munmap(base + head, length);
    return nullptr;
  }
  return base + head;
}

}  // namespace

void* AllocateZeroed(size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX / 2) return nullptr;
  if (bytes >= kMapFrom) return MapHuge(bytes);
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
