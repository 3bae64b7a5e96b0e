// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_group.h"

#include "absl/strings/str_cat.h"
#include "engine/parallel/spin_wait.h"

namespace dunlin::engine {

bool RankGroup::Meet() {
  // Before this rank arrives the meeting cannot end, unless the group does: then Fail has set failed_ first.
  const uint32_t meeting = meeting_.load(std::memory_order_acquire);
  if (failed()) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_ranks_) {
    arrived_.store(0, std::memory_order_relaxed);
    meeting_.fetch_add(1, std::memory_order_release);
    meeting_.notify_all();
  } else {
    WaitWhile(meeting_, meeting);
  }
  return !failed();
}

void RankGroup::Fail(int32_t rank, const absl::Status& status) {
  {
    const MutexLock lock(&mutex_);
    if (status_.ok()) {
      status_ = absl::Status(status.code(), absl::StrCat("rank ", rank, " of ", num_ranks_, ": ", status.message()));
    }
  }
  failed_.store(true, std::memory_order_release);
  meeting_.fetch_add(1, std::memory_order_release);
  meeting_.notify_all();
}

absl::Status RankGroup::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

}  // namespace dunlin::engine
