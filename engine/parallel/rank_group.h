// SPDX-License-Identifier: Apache-2.0
// The ranks of a divided model that run one pass together. Each computes columns of rows that all of them read next:
// Meet is the point where a rank's columns are complete and the others' may be read. No sums are made of what ranks
// give, so that nothing depends on who comes first.
// A rank that fails ends the group: the others return from Meet, and the first reason is the model's. One that stands
// still holds the others at the next meeting, which tells who it is.
// Thread rule: Meet and Fail on the rank's own thread; the rest on any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "engine/parallel/device_links.h"
#include "engine/parallel/spin_wait.h"

namespace dunlin::engine {

class RankGroup {
 public:
  // num_ranks >= 1.
  explicit RankGroup(int32_t num_ranks);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int32_t num_ranks() const { return static_cast<int32_t>(num_ranks_); }

  // Waits until every rank has called it as often; what they wrote before is visible then. False, at once, where a rank
  // has failed. rank: the caller's.
  bool Meet(int32_t rank);

  // Of ranks on devices with memory of their own: what Fail stops, too. Before ranks run; null: there is none.
  void set_links(DeviceLinks* links) { links_ = links; }

  // Ends the group for good. The first caller's status stays. REQUIRES: !status.ok().
  void Fail(int32_t rank, const absl::Status& status);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // OK, or that status with its rank in front of its message.
  absl::Status status() const;
  // The rank that has failed first or that others wait for, the lowest of several; -1: nobody waits.
  int32_t rank_at_fault() const;

 private:
  struct alignas(64) Rank {
    explicit Rank(int32_t num_ranks) : spin(num_ranks) {}

    SpinTime spin;                  // of its thread
    std::atomic<uint32_t> came{0};  // to so many meetings; those that have ended and one more: it waits
  };

  const uint32_t num_ranks_;
  DeviceLinks* links_ = nullptr;
  alignas(64) std::atomic<uint32_t> arrived_{0};  // ranks at the present meeting
  alignas(64) std::atomic<uint32_t> meeting_{0};  // meetings that have ended; what ranks wait on
  std::deque<Rank> ranks_;
  std::atomic<bool> failed_{false};
  std::atomic<int32_t> failed_rank_{-1};
  mutable Mutex mutex_;  // guards status_
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
