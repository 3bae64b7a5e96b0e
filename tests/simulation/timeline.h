// SPDX-License-Identifier: Apache-2.0
// What happens in a run of the level "server", and when: calls, cancels, and what operators and devices do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/simulation/fake_ranks.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

inline constexpr engine::TimeNs kTick = 10'000'000;  // of the times that a workload is drawn in

struct Happening {
  enum class Kind : uint8_t {
    kArrival,  // of call `index`
    kCancel,   // by its client
    kPauseAbort,
    kPauseWait,
    kPauseKeep,
    kResume,
    kClearCache,
    kSuspend,  // the watchdog finds a stall
    kUnsuspend,
    kChangeQuota,
    kReload,
    kDrain,
    kStop,
  };
  engine::TimeNs at = 0;
  Kind kind = Kind::kArrival;
  size_t index = 0;
};

// In order of time. Every pause is followed by a resume.
std::vector<Happening> MakeTimeline(Dice* dice, const std::vector<PlannedRequest>& requests);
bool Reloads(const std::vector<Happening>& timeline);

// Several ranks, of which one is slow, stands still or fails; on_stall is the run's.
FakeRankOptions DrawRanks(Dice* dice, bool may_fail);

}  // namespace dunlin::simulation
