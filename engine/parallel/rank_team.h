// SPDX-License-Identifier: Apache-2.0
// The ranks of a divided model that run what they run together: their threads, the processors of each, and the group in
// which they meet and end. Thread rule: made, used and destroyed by one thread at a time; group() as RankGroup says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/parallel/rank_devices.h"
#include "engine/parallel/rank_group.h"
#include "engine/parallel/rank_threads.h"

namespace dunlin::engine {

class RankTeam {
 public:
  // num_ranks > 1. RESOURCE_EXHAUSTED when the system has no thread left.
  static absl::StatusOr<std::unique_ptr<RankTeam>> Start(int32_t num_ranks);

  RankGroup* group() { return &group_; }
  // That the rank's threads are bound to; empty: none in particular.
  const std::vector<int>& cpus(int32_t rank) const { return cpus_[static_cast<size_t>(rank)]; }

  // Calls body(rank) for every rank, all at once, after which they meet; rank 0's is the calling thread, which is bound
  // from the first call on. A rank's error ends the group for good; returns the group's status.
  absl::Status Run(absl::FunctionRef<absl::Status(int32_t rank)> body);

 private:
  RankTeam(int32_t num_ranks, std::vector<std::vector<int>> cpus);

  const std::vector<std::vector<int>> cpus_;
  RankGroup group_;
  RankThreads threads_;
  bool bound_ = false;  // whether the caller's thread is
};

}  // namespace dunlin::engine
