// SPDX-License-Identifier: Apache-2.0
// The KV pages of one model: a fixed number of ids with reference counts, and a list of the free ones in the order of
// reuse. Of these the first num_usable() may be used, and more of them as the pool gets memory. One array, nothing
// allocated after construction, every operation but Grow O(1).
// The pool knows nothing of page contents: a free page keeps its bytes until it is allocated again.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/page.h"

namespace dunlin::engine {

class PagePool {
 public:
  // REQUIRES: 0 <= num_usable <= num_pages.
  PagePool(int32_t num_pages, int32_t num_usable);
  explicit PagePool(int32_t num_pages) : PagePool(num_pages, num_pages) {}

  // More pages may be used: they are the next to be allocated, in order, because nobody wants what they hold. No-op for
  // fewer than now.
  void Grow(int32_t num_usable);

  // The first of the free list, with one reference; kNoPage when none is free.
  PageId Allocate();
  // Adds a reference. A free page leaves the free list with its bytes intact.
  void Retain(PageId page);
  // Drops a reference. The last one frees the page: to the end of the free list when `reusable`, because its bytes may
  // be needed again, else to the front. REQUIRES: it has a reference.
  void Release(PageId page, bool reusable);

  int32_t num_free() const { return num_free_; }
  int32_t num_pages() const { return num_pages_; }
  int32_t num_usable() const { return num_usable_; }
  int32_t references(PageId page) const { return nodes_[static_cast<size_t>(page)].references; }

  // Free list and counts agree: INTERNAL with the first contradiction. O(pages); for tests and idle moments.
  absl::Status CheckIntegrity() const;

 private:
  // The free list is a ring through `nodes_`; the extra last node is its head and tail.
  struct Node {
    int32_t references = 0;
    PageId previous = kNoPage;
    PageId next = kNoPage;
  };

  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  void Unlink(PageId page);
  void LinkBefore(PageId page, PageId place);

  int32_t num_pages_;
  int32_t num_usable_ = 0;
  int32_t num_free_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace dunlin::engine
