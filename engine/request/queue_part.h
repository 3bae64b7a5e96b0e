// SPDX-License-Identifier: Apache-2.0
// What each tenant has in a mailbox's queue. QueueParts belongs to the mailbox, whose lock guards it; of a QueuePart
// the engine thread counts what has left the queue, without the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// Of one tenant with live work.
class QueuePart {
 public:
  // Engine thread: a request of so many tokens has left the queue.
  void Dequeue(uint64_t num_tokens) {
    dequeued_tokens_.fetch_add(num_tokens, std::memory_order_relaxed);
    dequeued_requests_.fetch_add(1, std::memory_order_relaxed);
  }
  // Now in the queue.
  uint64_t num_requests() const { return submitted_requests_ - dequeued_requests_.load(std::memory_order_relaxed); }
  uint64_t num_tokens() const { return submitted_tokens_ - dequeued_tokens_.load(std::memory_order_relaxed); }

 private:
  friend class QueueParts;
  TenantId tenant_ = kSharedTenant;
  int64_t num_live_ = 0;  // from Join to Leave
  uint64_t submitted_requests_ = 0;
  uint64_t submitted_tokens_ = 0;
  std::atomic<uint64_t> dequeued_requests_{0};
  std::atomic<uint64_t> dequeued_tokens_{0};
};

class QueueParts {
 public:
  // At most max_live works are live at once.
  explicit QueueParts(size_t max_live) : parts_(std::make_unique<QueuePart[]>(max_live)) {
    free_.reserve(max_live);
    for (size_t i = max_live; i-- > 0;) free_.push_back(&parts_[i]);
  }

  // Null when the tenant has nothing live.
  const QueuePart* Find(TenantId tenant) const {
    const auto found = by_tenant_.find(tenant);
    return found == by_tenant_.end() ? nullptr : found->second;
  }
  // Tenants with live work.
  size_t size() const { return by_tenant_.size(); }
  // The part of a new work of so many tokens; valid until the work leaves.
  QueuePart* Join(TenantId tenant, uint64_t num_tokens) {
    QueuePart*& part = by_tenant_[tenant];
    if (part == nullptr) {
      part = free_.back();
      free_.pop_back();
      part->tenant_ = tenant;
    }
    ++part->num_live_;
    ++part->submitted_requests_;
    part->submitted_tokens_ += num_tokens;
    return part;
  }
  // The work is no longer live. Allocates nothing. REQUIRES: it has left the queue.
  void Leave(QueuePart* part) {
    if (--part->num_live_ > 0) return;
    by_tenant_.erase(part->tenant_);
    free_.push_back(part);
  }

 private:
  std::unique_ptr<QueuePart[]> parts_;  // [max_live]
  std::vector<QueuePart*> free_;        // of these
  absl::flat_hash_map<TenantId, QueuePart*> by_tenant_;
};

}  // namespace dunlin::engine
