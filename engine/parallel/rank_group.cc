// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_group.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

RankGroup::RankGroup(int32_t num_ranks) : num_ranks_(static_cast<uint32_t>(num_ranks)) {
  for (int32_t rank = 0; rank < num_ranks; ++rank) ranks_.emplace_back(num_ranks);
}

bool RankGroup::Meet(int32_t rank) {
  // Before this rank arrives the meeting cannot end, unless the group does: then Fail has set failed_ first.
  const uint32_t meeting = meeting_.load(std::memory_order_acquire);
  if (failed()) return false;
  Rank& own = ranks_[static_cast<size_t>(rank)];
  own.came.store(meeting + 1, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_ranks_) {
    arrived_.store(0, std::memory_order_relaxed);
    meeting_.fetch_add(1, std::memory_order_release);
    meeting_.notify_all();
  } else {
    WaitWhile(meeting_, meeting, own.spin);
  }
  return !failed();
}

void RankGroup::Fail(int32_t rank, const absl::Status& status) {
  {
    const MutexLock lock(&mutex_);
    if (status_.ok()) {
      failed_rank_.store(rank, std::memory_order_relaxed);
      status_ = absl::Status(status.code(), absl::StrCat("rank ", rank, " of ", num_ranks_, ": ", status.message()));
    }
  }
  failed_.store(true, std::memory_order_release);
  if (links_ != nullptr) links_->Stop();
  meeting_.fetch_add(1, std::memory_order_release);
  meeting_.notify_all();
}

int32_t RankGroup::rank_at_fault() const {
  if (const int32_t failed_rank = failed_rank_.load(std::memory_order_relaxed); failed_rank >= 0) return failed_rank;
  const uint32_t meeting = meeting_.load(std::memory_order_acquire);
  const auto waits = [meeting](const Rank& rank) { return rank.came.load(std::memory_order_relaxed) == meeting + 1; };
  const auto missing = std::find_if_not(ranks_.begin(), ranks_.end(), waits);
  const bool somebody_waits = std::any_of(ranks_.begin(), ranks_.end(), waits);
  return somebody_waits && missing != ranks_.end() ? static_cast<int32_t>(missing - ranks_.begin()) : -1;
}

absl::Status RankGroup::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

}  // namespace dunlin::engine
