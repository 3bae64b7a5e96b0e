// SPDX-License-Identifier: Apache-2.0
// Which pages stand for a page set of the prefix cache that has become reusable, or is no more, since the list was last
// cleared. Each page once, so that the list is bounded by the pool, however rarely it is cleared. Allocates nothing
// after construction. Thread rule: the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache/page.h"

namespace dunlin::engine {

class PageChanges {
 public:
  explicit PageChanges(int32_t num_pages) : marked_(static_cast<size_t>(num_pages)) {
    pages_.reserve(static_cast<size_t>(num_pages));
  }

  void Mark(PageId page) {
    if (marked_[static_cast<size_t>(page)]) return;
    marked_[static_cast<size_t>(page)] = true;
    pages_.push_back(page);
  }
  void Clear() {
    for (const PageId page : pages_) marked_[static_cast<size_t>(page)] = false;
    pages_.clear();
  }
  const std::vector<PageId>& pages() const { return pages_; }

 private:
  std::vector<bool> marked_;  // by page
  std::vector<PageId> pages_;
};

}  // namespace dunlin::engine
