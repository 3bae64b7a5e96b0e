// SPDX-License-Identifier: Apache-2.0
// Host memory for weights, pages and scratch: 64-byte aligned, zeroed; large areas are mapped with huge pages.
// Any thread.
#pragma once

#include <cstddef>
#include <memory>

namespace dunlin::kernels::cpu {

class ThreadPool;

// Null when memory is exhausted, or for 0 bytes. pool: its workers touch the pages of a large area first, so that they
// are spread over memory nodes; null: the caller does.
void* AllocateZeroed(size_t bytes, ThreadPool* pool = nullptr);

// Addresses for `bytes` >= 4 MiB, without memory. Null when there are none, for less, or where the memory would come to
// lie on one of several memory nodes: then AllocateZeroed spreads it. The limit of locked memory, where all of the
// process is locked, counts here.
void* ReserveZeroed(size_t bytes);
// Gives memory to a part of what ReserveZeroed returned. False when the system has none: then the part has none.
// REQUIRES: it begins at a multiple of kBackingUnit (kernels/api/backing_unit.h) from the front.
bool BackMemory(void* data, size_t bytes);

// `bytes` as given to AllocateZeroed or ReserveZeroed; null memory is allowed.
void ReleaseMemory(void* memory, size_t bytes);

// Owner of one such area.
class MemoryBlock {
 public:
  explicit MemoryBlock(size_t bytes) : data_(AllocateZeroed(bytes), Releaser{bytes}) {}
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }

 private:
  struct Releaser {
    size_t bytes;
    void operator()(void* memory) const { ReleaseMemory(memory, bytes); }
  };
  std::unique_ptr<void, Releaser> data_;
};

}  // namespace dunlin::kernels::cpu
