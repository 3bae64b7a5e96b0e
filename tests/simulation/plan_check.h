// SPDX-License-Identifier: Apache-2.0
// A launched plan against the scheduler's sequences: what a runtime cannot see, because a plan holds copies.
#pragma once

#include <functional>
#include <string>

#include "engine/plan/step_plan.h"
#include "engine/request/kv_groups.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::simulation {

using FindSequence = std::function<const engine::Sequence*(engine::RequestId)>;

// After Plan: the contradictions between a plan and its sequences; empty when there is none.
std::string CheckNewPlan(const engine::StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups);

// Before Collect: whether every page that a launched plan reads is still its sequence's, as the first contradiction.
std::string CheckPagesKept(const engine::StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups);

}  // namespace dunlin::simulation
