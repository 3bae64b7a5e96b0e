// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {

PagePool::PagePool(int32_t num_pages, int32_t num_usable)
    : num_pages_(num_pages), nodes_(static_cast<size_t>(num_pages) + 1) {
  DUNLIN_CHECK(num_pages >= 0, "a negative number of pages");
  node(num_pages).previous = node(num_pages).next = num_pages;
  Grow(num_usable);
}

void PagePool::Grow(int32_t num_usable) {
  DUNLIN_CHECK(num_usable <= num_pages_, "more usable pages than there are");
  for (PageId page = num_usable; page-- > num_usable_;) LinkBefore(page, node(num_pages_).next);
  num_usable_ = std::max(num_usable_, num_usable);
}

PageId PagePool::Allocate() {
  if (num_free_ == 0) return kNoPage;
  const PageId page = node(num_pages_).next;
  Retain(page);
  return page;
}

void PagePool::Retain(PageId page) {
  if (node(page).references++ == 0) Unlink(page);
}

void PagePool::Release(PageId page, bool reusable) {
  DUNLIN_CHECK(node(page).references > 0, "a page is released once per reference");
  if (--node(page).references > 0) return;
  const PageId ring = num_pages_;
  LinkBefore(page, reusable ? ring : node(ring).next);
}

void PagePool::Unlink(PageId page) {
  Node& unlinked = node(page);
  node(unlinked.previous).next = unlinked.next;
  node(unlinked.next).previous = unlinked.previous;
  unlinked.previous = unlinked.next = kNoPage;
  --num_free_;
}

void PagePool::LinkBefore(PageId page, PageId place) {
  const PageId previous = node(place).previous;
  node(page).previous = previous;
  node(page).next = place;
  node(previous).next = page;
  node(place).previous = page;
  ++num_free_;
}

absl::Status PagePool::CheckIntegrity() const {
  int32_t linked = 0;
  const PageId ring = num_pages_;
  for (PageId page = nodes_[static_cast<size_t>(ring)].next; page != ring;
       page = nodes_[static_cast<size_t>(page)].next) {
    if (page < 0 || page >= num_usable_) return absl::InternalError("free list leaves the pool");
    const Node& free_node = nodes_[static_cast<size_t>(page)];
    if (free_node.references != 0) return absl::InternalError(absl::StrCat("free page ", page, " has references"));
    if (nodes_[static_cast<size_t>(free_node.next)].previous != page) {
      return absl::InternalError(absl::StrCat("free list is broken after page ", page));
    }
    if (++linked > num_pages_) return absl::InternalError("free list has a cycle");
  }
  int32_t unreferenced = 0;
  for (PageId page = 0; page < num_pages_; ++page) {
    if (references(page) < 0) return absl::InternalError(absl::StrCat("page ", page, " has negative references"));
    if (references(page) > 0 && page >= num_usable_) {
      return absl::InternalError(absl::StrCat("page ", page, " has references and no memory"));
    }
    if (references(page) == 0 && page < num_usable_) ++unreferenced;
  }
  if (linked != num_free_ || unreferenced != num_free_) {
    return absl::InternalError(absl::StrCat("free pages: ", num_free_, " counted, ", linked, " in the list, ",
                                            unreferenced, " without references"));
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
