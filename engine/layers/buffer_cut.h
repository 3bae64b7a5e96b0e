// SPDX-License-Identifier: Apache-2.0
// Arrays cut out of one block of memory, one after another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::engine {

class BufferCut {
 public:
  // memory: 64-byte aligned, or null to measure.
  explicit BufferCut(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  // `count` elements at the next cache line.
  template <typename T>
  T* Take(int64_t count) {
    T* array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + taken_);
    taken_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  size_t taken() const { return taken_; }

 private:
  static constexpr size_t kAlignment = 64;  // a cache line

  std::byte* memory_;
  size_t taken_ = 0;
};

}  // namespace dunlin::engine
