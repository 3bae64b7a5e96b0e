// SPDX-License-Identifier: Apache-2.0
#include "engine/base/page_buffer.h"

#include <sys/mman.h>

#include <cstdint>

namespace dunlin::engine {

bool PageBuffer::Reserve(size_t bytes) {
  constexpr size_t kLargePageBytes = size_t{2} << 20;
  if (bytes <= size_) return true;
  if (bytes > SIZE_MAX - kLargePageBytes) return false;
  const size_t unit = bytes < kLargePageBytes ? kPageBytes : kLargePageBytes;
  const size_t size = (bytes + unit - 1) / unit * unit;
  memory_.reset();
  size_ = 0;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(unit, size)));
  if (memory_ == nullptr) return false;
  size_ = size;
  if (unit == kLargePageBytes) madvise(memory_.get(), size, MADV_HUGEPAGE);  // only advice, so a failure is ignored
  return true;
}

}  // namespace dunlin::engine
