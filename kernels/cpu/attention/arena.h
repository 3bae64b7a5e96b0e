// SPDX-License-Identifier: Apache-2.0
// Carves typed, 64-byte aligned arrays out of a workspace. Measuring and carving run the same code: over a null base an
// Arena only counts. Thread rule: one owner.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::kernels::cpu {

class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::byte*>(base)) {}

  // An uninitialised array of count elements; null when only counting.
  template <typename T>
  T* Take(int64_t count) {
    const size_t start = used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + start);
  }

  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace dunlin::kernels::cpu
