// SPDX-License-Identifier: Apache-2.0
// The counters behind DeviceOps::memory. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::kernels {

class MemoryCount {
 public:
  void Take(size_t bytes) {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const size_t held = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    size_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < held && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }
  void TakeHost() { allocations_.fetch_add(1, std::memory_order_relaxed); }
  void Give(size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  DeviceMemory Read() const {
    return {.bytes_held = held_.load(std::memory_order_relaxed),
            .bytes_peak = peak_.load(std::memory_order_relaxed),
            .allocations = allocations_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<size_t> held_{0};
  std::atomic<size_t> peak_{0};
  std::atomic<uint64_t> allocations_{0};
};

}  // namespace dunlin::kernels
