// SPDX-License-Identifier: Apache-2.0
// Gives memory to the KV pool of a runtime while its model serves already: one thread, chunk by chunk in the order of
// the pages, until all of them have memory, the system has none left, or the object is destroyed. A system that gives
// memory at 0.4 GB/s (a virtual machine whose host backs it on demand) takes 15 s for 6 GB, which no request of the
// first minute needs.
// Before each chunk it asks what is left: a cgroup's limit ends a process that touches more, it does not refuse. What
// is missing then is given up; a reload tries again.
// Thread rule: made and destroyed by one thread; state() from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "engine/request/kv_pool_state.h"
#include "engine/request/options.h"

namespace dunlin::engine {

class PoolBacking {
 public:
  static constexpr size_t kChunkBytes = size_t{16} << 20;  // some 40 ms at 0.4 GB/s: as long as an unload waits
  // Left to the rest of the process, whose own growth is bounded by the memory plan, between two looks at what is left.
  static constexpr size_t kHeadroomBytes = size_t{16} << 20;

  // The pool has num_pages pages of page_bytes, of which the first `backed` bytes have memory. back: gives memory to
  // the pool up to byte `end`; false when there is none. options.memory_left is set. Starts the thread.
  PoolBacking(KvBackingOptions options, int32_t num_pages, size_t page_bytes, size_t backed,
              std::function<bool(size_t end)> back);
  // Waits for the chunk in progress; on_end is not called where the pool was still growing.
  ~PoolBacking();
  PoolBacking(const PoolBacking&) = delete;
  PoolBacking& operator=(const PoolBacking&) = delete;

  KvPoolState state() const {
    const bool ended = ended_.load(std::memory_order_acquire);  // first: the number is the last one then
    return {num_backed_.load(std::memory_order_acquire), !ended};
  }

 private:
  void Run(size_t backed);
  bool BackUpTo(size_t end, size_t backed);

  const KvBackingOptions options_;
  const int32_t num_pages_;
  const size_t page_bytes_;
  const std::function<bool(size_t end)> back_;
  std::atomic<int32_t> num_backed_;  // pages; written by the thread, after they have memory
  std::atomic<bool> ended_{false};   // written by the thread, after num_backed_
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dunlin::engine
