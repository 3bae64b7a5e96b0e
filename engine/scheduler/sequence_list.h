// Sequences in the order in which they are served: higher priority first, then earlier arrival, then lower id. A sorted
// array of fixed capacity: no allocation after construction, O(log n) to find, O(n) moved pointers to change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/base/check.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::engine {

// Whether `a` is served before `b`: "older" and "newer" in this room mean this order.
inline bool IsOlder(const Sequence* a, const Sequence* b) {
  if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
  if (a->request.arrival != b->request.arrival) return a->request.arrival < b->request.arrival;
  return a->id < b->id;
}

class SequenceList {
 public:
  explicit SequenceList(size_t capacity) { sequences_.reserve(capacity); }

  void Insert(Sequence* sequence) {
    DUNLIN_CHECK(sequences_.size() < sequences_.capacity(), "a list holds what it was made for");
    sequences_.insert(std::lower_bound(sequences_.begin(), sequences_.end(), sequence, IsOlder), sequence);
  }

  // REQUIRES: it is in the list.
  void Erase(Sequence* sequence) {
    const auto found = std::lower_bound(sequences_.begin(), sequences_.end(), sequence, IsOlder);
    DUNLIN_CHECK(found != sequences_.end() && *found == sequence, "only a member can be erased");
    sequences_.erase(found);
  }

  bool empty() const { return sequences_.empty(); }
  size_t size() const { return sequences_.size(); }
  Sequence* operator[](size_t index) const { return sequences_[index]; }
  Sequence* oldest() const { return sequences_.front(); }
  Sequence* newest() const { return sequences_.back(); }
  auto begin() const { return sequences_.begin(); }
  auto end() const { return sequences_.end(); }

 private:
  std::vector<Sequence*> sequences_;
};

}  // namespace dunlin::engine
