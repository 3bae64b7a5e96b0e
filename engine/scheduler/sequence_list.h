// SPDX-License-Identifier: Apache-2.0
// Sequences in one of two orders, a sorted array of fixed capacity: no allocation after construction, O(log n) to find,
// O(n) moved pointers to change. The fields that an order compares must not change while a sequence is listed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/base/check.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::engine {

// Higher priority first, then earlier arrival, then lower id: "older" and "newer" in this room mean this order.
inline bool IsOlder(const Sequence* a, const Sequence* b) {
  if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
  if (a->request.arrival != b->request.arrival) return a->request.arrival < b->request.arrival;
  return a->id < b->id;
}

// Higher priority first, then fewer known tokens, then older.
inline bool IsShorter(const Sequence* a, const Sequence* b) {
  if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
  if (a->num_tokens() != b->num_tokens()) return a->num_tokens() < b->num_tokens();
  return IsOlder(a, b);
}

template <bool (*Before)(const Sequence*, const Sequence*)>
class SortedSequences {
 public:
  explicit SortedSequences(size_t capacity) { sequences_.reserve(capacity); }

  void Insert(Sequence* sequence) {
    DUNLIN_CHECK(sequences_.size() < sequences_.capacity(), "the list is full");
    sequences_.insert(std::lower_bound(sequences_.begin(), sequences_.end(), sequence, Before), sequence);
  }

  // REQUIRES: it is in the list.
  void Erase(Sequence* sequence) {
    const auto found = std::lower_bound(sequences_.begin(), sequences_.end(), sequence, Before);
    DUNLIN_CHECK(found != sequences_.end() && *found == sequence, "only a member can be erased");
    sequences_.erase(found);
  }

  bool empty() const { return sequences_.empty(); }
  size_t size() const { return sequences_.size(); }
  Sequence* operator[](size_t index) const { return sequences_[index]; }
  Sequence* first() const { return sequences_.front(); }
  Sequence* last() const { return sequences_.back(); }
  auto begin() const { return sequences_.begin(); }
  auto end() const { return sequences_.end(); }

 private:
  std::vector<Sequence*> sequences_;
};

using SequenceList = SortedSequences<IsOlder>;

}  // namespace dunlin::engine
