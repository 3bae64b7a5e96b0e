// SPDX-License-Identifier: Apache-2.0
// What must hold at the level "server": at each launch, when an engine has stopped, and of each call's end. "" where it
// does, else the first contradiction.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/simulation/call.h"
#include "tests/simulation/fake_ranks.h"
#include "tests/simulation/plan_check.h"

namespace dunlin::simulation {

// What ends requests of a run from outside.
struct OutsideEnds {
  bool aborted = false;  // by a pause
  bool stopped = false;  // with their engine
  bool device_failed = false;
};

// Before a plan is launched. open: calls that are not over.
std::string CheckLaunch(const FakeEngine& engine, const Workload& workload, const engine::StepPlan& plan,
                        const std::vector<Call*>& open, ProgressCheck* progress);
std::string CheckStopped(const FakeEngine& stopped, const std::deque<Call>& calls, bool device_failed);
// Of the error with which an engine has ended: where a rank was to fail, the first reason alone, with that rank.
std::string CheckRankReason(const FakeRankOptions& ranks, const absl::Status& reason);
// Of a call that was submitted.
std::string CheckEnd(const Call& call, const OutsideEnds& ends, const Workload& workload);

}  // namespace dunlin::simulation
