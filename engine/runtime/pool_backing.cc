// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/pool_backing.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/base/thread_name.h"

namespace dunlin::engine {

PoolBacking::PoolBacking(KvBackingOptions options, int32_t num_pages, size_t page_bytes, size_t backed,
                         std::function<bool(size_t end)> back)
    : options_(std::move(options)),
      num_pages_(num_pages),
      page_bytes_(page_bytes),
      back_(std::move(back)),
      num_backed_(static_cast<int32_t>(backed / page_bytes)) {
  thread_ = std::thread([this, backed] {
    NameThread("kv-pages");
    Run(backed);
  });
}

PoolBacking::~PoolBacking() {
  stop_ = true;
  thread_.join();
}

void PoolBacking::Run(size_t backed) {
  const size_t all = static_cast<size_t>(num_pages_) * page_bytes_;
  while (backed < all) {
    if (stop_) return;
    const size_t end = std::min(backed + kChunkBytes, all);
    if (!BackUpTo(end, backed)) break;
    backed = end;
    num_backed_.store(static_cast<int32_t>(backed / page_bytes_), std::memory_order_release);
  }
  ended_.store(true, std::memory_order_release);
  if (options_.on_end) options_.on_end(num_backed_, num_pages_);
}

bool PoolBacking::BackUpTo(size_t end, size_t backed) {
  try {
    return options_.memory_left() >= end - backed + kHeadroomBytes && back_(end);
  } catch (const std::bad_alloc&) {  // the look itself found no memory
    return false;
  }
}

}  // namespace dunlin::engine
