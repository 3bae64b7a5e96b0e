// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/allocation_counter.h"

#include <atomic>
#include <cstddef>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define DUNLIN_COUNTS_ALLOCATIONS 1
#endif

namespace dunlin::engine {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
thread_local bool excluded = false;

#ifdef DUNLIN_COUNTS_ALLOCATIONS
void Note() {
  if (counting.load(std::memory_order_relaxed) && !excluded) allocations.fetch_add(1, std::memory_order_relaxed);
}
#endif

}  // namespace

#ifdef DUNLIN_COUNTS_ALLOCATIONS
bool AllocationCounterWorks() {
  return true;
}
void NoteAllocation() {
  Note();
}
#else
bool AllocationCounterWorks() {
  return false;
}
#endif

AllocationCounter::AllocationCounter(Threads threads) {
  excluded = threads == Threads::kAllButThis;
  allocations.store(0);
  counting.store(true);
}

AllocationCounter::~AllocationCounter() {
  counting.store(false);
  excluded = false;
}

int64_t AllocationCounter::count() const {
  return allocations.load();
}

}  // namespace dunlin::engine

#ifdef DUNLIN_COUNTS_ALLOCATIONS
// glibc's own entry points; what is defined here takes the place of malloc for the whole process, libstdc++ included.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  dunlin::engine::NoteAllocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  dunlin::engine::NoteAllocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  dunlin::engine::NoteAllocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  dunlin::engine::NoteAllocation();
  return __libc_memalign(alignment, bytes);
}
}
#endif
