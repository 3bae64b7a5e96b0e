// SPDX-License-Identifier: Apache-2.0
// A launched plan against the scheduler's sequences: what a runtime cannot see, because a plan holds copies.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "engine/plan/step_plan.h"
#include "engine/request/kv_groups.h"
#include "engine/scheduler/sequence.h"
#include "engine/scheduler/sequence_list.h"

namespace dunlin::simulation {

using FindSequence = std::function<const engine::Sequence*(engine::RequestId)>;

// After Plan: the contradictions between a plan and its sequences; empty when there is none.
std::string CheckNewPlan(const engine::StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups);

// Before Collect: whether every page that a launched plan reads is still its sequence's, as the first contradiction.
std::string CheckPagesKept(const engine::StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups);

// Pages are only shared by sequences with one salt: what tenants put into their prompts stays theirs.
std::string CheckSalts(const engine::SequenceList& running);

// Whether the oldest running sequence progresses, asked after each plan.
class ProgressCheck {
 public:
  // At depth 2 the pages it needs may be those of a launched step; the plan after that commit gets them.
  bool StandsStill(const engine::Sequence& oldest, int32_t depth) {
    const std::pair<engine::RequestId, int32_t> progress = {oldest.id, oldest.num_computed};
    stalls_ = oldest.num_in_flight == 0 && progress == last_ ? stalls_ + 1 : 0;
    last_ = progress;
    return stalls_ >= depth;
  }

 private:
  int32_t stalls_ = 0;  // plans in a row without the oldest sequence, or pages that it took
  std::pair<engine::RequestId, int32_t> last_ = {};  // it and its computed tokens at the last plan
};

}  // namespace dunlin::simulation
