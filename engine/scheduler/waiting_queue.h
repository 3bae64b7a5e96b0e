// SPDX-License-Identifier: Apache-2.0
// The sequences waiting to be started: all by age, and those of each tenant by age and for each profile by length.
// Shorter ones may pass a tenant's oldest until max_passed() tokens have: then it is due, and no other one of the
// tenant is started before it. So the oldest waits about four times as long as in strict order at most. Thread rule:
// the engine thread only. Nothing is allocated after construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduler/sequence_list.h"
#include "engine/scheduler/tenants.h"

namespace dunlin::engine {

class WaitingQueue {
 public:
  // max_tokens_per_step: so many tokens may pass any sequence, however short it is.
  WaitingQueue(size_t capacity, int32_t max_tokens_per_step)
      : max_tokens_per_step_(max_tokens_per_step), by_age_(capacity), by_tenant_(capacity) {
    for (size_t profile = 0; profile < kNumProfiles; ++profile) by_length_.emplace_back(capacity);
  }

  // REQUIRES: it has a tenant.
  void Insert(Sequence* sequence) {
    by_age_.Insert(sequence);
    by_tenant_.Insert(sequence);
    by_length_[ProfileIndex(sequence->request.profile)].Insert(sequence);
  }
  // REQUIRES: it is in the queue.
  void Erase(Sequence* sequence) {
    by_age_.Erase(sequence);
    by_tenant_.Erase(sequence);
    by_length_[ProfileIndex(sequence->request.profile)].Erase(sequence);
  }
  // Erases a sequence that is being started. It has passed those of the `tenants` whose oldest is older.
  void EraseStarted(Sequence* sequence, const std::vector<Tenant*>& tenants) {
    Erase(sequence);
    for (const Tenant* tenant : tenants) {
      Sequence* left = oldest(*tenant);
      if (left != nullptr && IsOlder(left, sequence)) left->passed_tokens += sequence->num_tokens();
    }
  }

  bool empty() const { return by_age_.empty(); }
  const SequenceList& by_age() const { return by_age_; }
  // Of a tenant; null when none of it waits.
  Sequence* oldest(const Tenant& tenant) const {
    return FirstOf(tenant, by_tenant_, [](const Sequence*) { return false; });
  }
  // The shortest of a tenant and a profile among those of the highest priority below `priority`; null when there is
  // none.
  Sequence* shortest_below(const Tenant& tenant, size_t profile, int64_t priority) const {
    return FirstOf(tenant, by_length_[profile],
                   [priority](const Sequence* sequence) { return sequence->request.priority >= priority; });
  }

  // Whether no other one of its tenant may be started. REQUIRES: it is the oldest of its tenant.
  bool is_due(const Sequence& oldest) const { return oldest.passed_tokens >= max_passed(oldest); }
  // Tokens of newer sequences that may pass it; the last one of these may exceed them.
  int64_t max_passed(const Sequence& sequence) const {
    return std::max(int64_t{max_tokens_per_step_}, int64_t{3} * sequence.num_tokens());
  }

 private:
  static bool IsOlderOfTenant(const Sequence* a, const Sequence* b) {
    return a->tenant != b->tenant ? a->tenant->index < b->tenant->index : IsOlder(a, b);
  }
  static bool IsShorterOfTenant(const Sequence* a, const Sequence* b) {
    return a->tenant != b->tenant ? a->tenant->index < b->tenant->index : IsShorter(a, b);
  }
  using ByTenant = SortedSequences<IsOlderOfTenant>;
  using ByLength = SortedSequences<IsShorterOfTenant>;

  // The first of a tenant's that is not `before`; null when there is none.
  template <typename List, typename Before>
  static Sequence* FirstOf(const Tenant& tenant, const List& list, const Before& before) {
    const auto found = std::partition_point(list.begin(), list.end(), [&](const Sequence* sequence) {
      return sequence->tenant == &tenant ? before(sequence) : sequence->tenant->index < tenant.index;
    });
    return found != list.end() && (*found)->tenant == &tenant ? *found : nullptr;
  }

  int32_t max_tokens_per_step_;
  SequenceList by_age_;
  ByTenant by_tenant_;
  std::vector<ByLength> by_length_;  // [kNumProfiles]
};

}  // namespace dunlin::engine
