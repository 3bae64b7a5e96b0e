// SPDX-License-Identifier: Apache-2.0
// Page-aligned memory, as reads past the page cache require, in large pages where the system has them: a read of 16 MiB
// then goes to a few contiguous runs of memory instead of thousands.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace dunlin::engine {

inline constexpr size_t kPageBytes = 4096;  // a multiple of the block size of most disks

class PageBuffer {
 public:
  // Grows to at least `bytes`; growing discards the contents. False when there is no memory.
  bool Reserve(size_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  size_t size_ = 0;
};

}  // namespace dunlin::engine
