// SPDX-License-Identifier: Apache-2.0
// The sequences waiting to be started, in two orders: by age, and for each profile by length. Shorter ones may pass the
// oldest until max_passed() tokens have: then it is due, and no other is started before it. So the oldest waits about
// four times as long as in strict order at most.
// Thread rule: the engine thread only. Nothing is allocated after construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduler/sequence_list.h"

namespace dunlin::engine {

// Profiles within one model: the other fields of a profile are the same in all of them.
inline constexpr size_t kNumProfiles = size_t{kernels::kNumAttentionBackends} * kernels::kNumPrecisions;
constexpr size_t ProfileIndex(const ExecutionProfile& profile) {
  return static_cast<size_t>(profile.attention_backend) * kernels::kNumPrecisions +
         static_cast<size_t>(profile.precision);
}

class WaitingQueue {
 public:
  // max_tokens_per_step: so many tokens may pass any sequence, however short it is.
  WaitingQueue(size_t capacity, int32_t max_tokens_per_step)
      : max_tokens_per_step_(max_tokens_per_step), by_age_(capacity) {
    for (size_t profile = 0; profile < kNumProfiles; ++profile) by_length_.emplace_back(capacity);
  }

  void Insert(Sequence* sequence) {
    by_age_.Insert(sequence);
    by_length_[ProfileIndex(sequence->request.profile)].Insert(sequence);
  }
  // REQUIRES: it is in the queue.
  void Erase(Sequence* sequence) {
    by_age_.Erase(sequence);
    by_length_[ProfileIndex(sequence->request.profile)].Erase(sequence);
  }
  // Erases a sequence that is being started. If an older one stays, it has been passed.
  void EraseStarted(Sequence* sequence) {
    Erase(sequence);
    if (!empty() && IsOlder(oldest(), sequence)) oldest()->passed_tokens += sequence->num_tokens();
  }

  bool empty() const { return by_age_.empty(); }
  const SequenceList& by_age() const { return by_age_; }
  Sequence* oldest() const { return by_age_.first(); }
  // The shortest of a profile among those of the highest priority below `priority`; null when there is none.
  Sequence* shortest_below(size_t profile, int64_t priority) const {
    const ByLength& list = by_length_[profile];
    const auto found = std::partition_point(list.begin(), list.end(),
                                            [priority](const Sequence* s) { return s->request.priority >= priority; });
    return found == list.end() ? nullptr : *found;
  }

  // Whether the oldest is the only one that may be started. REQUIRES: not empty.
  bool oldest_is_due() const { return oldest()->passed_tokens >= max_passed(*oldest()); }
  // Tokens of newer sequences that may pass it; the last one of these may exceed them.
  int64_t max_passed(const Sequence& sequence) const {
    return std::max(int64_t{max_tokens_per_step_}, int64_t{3} * sequence.num_tokens());
  }

 private:
  using ByLength = SortedSequences<IsShorter>;

  int32_t max_tokens_per_step_;
  SequenceList by_age_;
  std::vector<ByLength> by_length_;  // [kNumProfiles]
};

}  // namespace dunlin::engine
