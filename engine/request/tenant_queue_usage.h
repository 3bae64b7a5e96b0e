// SPDX-License-Identifier: Apache-2.0
// How many requests and tokens each tenant has in a mailbox's queue. The mailbox owns the TenantQueueUsages, and its
// lock guards them, except for Dequeue, which the engine thread calls without it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// One tenant's usage while it has live work.
class TenantQueueUsage {
 public:
  // Engine thread: a request of so many tokens has left the queue.
  void Dequeue(uint64_t num_tokens) {
    dequeued_tokens_.fetch_add(num_tokens, std::memory_order_relaxed);
    dequeued_requests_.fetch_add(1, std::memory_order_relaxed);
  }
  // In the queue now.
  uint64_t num_requests() const { return submitted_requests_ - dequeued_requests_.load(std::memory_order_relaxed); }
  uint64_t num_tokens() const { return submitted_tokens_ - dequeued_tokens_.load(std::memory_order_relaxed); }

 private:
  friend class TenantQueueUsages;
  TenantId tenant_ = kSharedTenant;
  int64_t num_live_ = 0;  // from Join to Leave
  uint64_t submitted_requests_ = 0;
  uint64_t submitted_tokens_ = 0;
  std::atomic<uint64_t> dequeued_requests_{0};
  std::atomic<uint64_t> dequeued_tokens_{0};
};

// The usage of every tenant with live work, in slots that are allocated once.
class TenantQueueUsages {
 public:
  // max_live: the most works that are live at once.
  explicit TenantQueueUsages(size_t max_live) : usages_(std::make_unique<TenantQueueUsage[]>(max_live)) {
    free_.reserve(max_live);
    for (size_t i = max_live; i-- > 0;) free_.push_back(&usages_[i]);
  }

  // Null when the tenant has nothing live.
  const TenantQueueUsage* Find(TenantId tenant) const {
    const auto found = by_tenant_.find(tenant);
    return found == by_tenant_.end() ? nullptr : found->second;
  }
  // Tenants with live work.
  size_t size() const { return by_tenant_.size(); }
  // Counts a new work of so many tokens and returns its tenant's usage, valid until the work leaves.
  TenantQueueUsage* Join(TenantId tenant, uint64_t num_tokens) {
    TenantQueueUsage*& usage = by_tenant_[tenant];
    if (usage == nullptr) {
      usage = free_.back();
      free_.pop_back();
      usage->tenant_ = tenant;
    }
    ++usage->num_live_;
    ++usage->submitted_requests_;
    usage->submitted_tokens_ += num_tokens;
    return usage;
  }
  // The work is no longer live. Allocates nothing. REQUIRES: it has left the queue.
  void Leave(TenantQueueUsage* usage) {
    if (--usage->num_live_ > 0) return;
    by_tenant_.erase(usage->tenant_);
    free_.push_back(usage);
  }

 private:
  std::unique_ptr<TenantQueueUsage[]> usages_;  // [max_live]
  std::vector<TenantQueueUsage*> free_;         // of these
  absl::flat_hash_map<TenantId, TenantQueueUsage*> by_tenant_;
};

}  // namespace dunlin::engine
