// Host memory for weights, pages and scratch: 64-byte aligned, zeroed; large areas are mapped and ask for huge pages.
// Any thread.
#pragma once

#include <cstddef>
#include <memory>

namespace dunlin::kernels::cpu {

class ThreadPool;

// Null when the system has none left, or for 0 bytes. pool: its workers take a large area's pages; null: the caller.
void* AllocateZeroed(size_t bytes, ThreadPool* pool = nullptr);

// `bytes` as given to AllocateZeroed; null memory is allowed.
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
