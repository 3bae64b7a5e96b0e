// SPDX-License-Identifier: Apache-2.0
// The ranks of a fake model: threads of engine/parallel that compute the columns of a row, layer by layer, each from
// all columns of the layer before. One of them may be late, stand still or fail. What they compute does not depend on
// the order in which they run, so that a seed stays the same run. Thread rule: one thread at a time, as RankTeam says.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/parallel/rank_team.h"

namespace dunlin::simulation {

struct FakeRankOptions {
  int32_t num_ranks = 1;           // of one nothing is run
  int32_t odd_rank = 0;            // the rank that the rest is about
  bool slow = false;               // it meets the others when they have gone to sleep, in some steps
  int64_t stall_at = -1;           // the step in which it calls on_stall while the others wait for it
  int64_t fail_at = -1;            // the step in which it fails
  int32_t fault_layer = 0;         // of that step, < kFakeLayers
  std::function<void()> on_stall;  // on the rank's thread
};
inline constexpr int32_t kFakeLayers = 3;

class FakeRanks {
 public:
  explicit FakeRanks(const FakeRankOptions& options);

  // The step of all ranks: the group's status.
  absl::Status Run(int64_t step);
  // 0 as long as every rank has read what the others had written; draws add it.
  uint64_t wrong_bits() const { return wrong_bits_; }

 private:
  absl::Status RunRank(int64_t step, int32_t rank);

  FakeRankOptions options_;
  std::unique_ptr<engine::RankTeam> team_;                  // of several ranks
  std::array<std::vector<uint64_t>, kFakeLayers> columns_;  // [num_ranks]
  std::vector<uint64_t> rows_;                              // [num_ranks] what each has read last
  uint64_t wrong_bits_ = 0;
};

}  // namespace dunlin::simulation
