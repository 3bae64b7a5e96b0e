// SPDX-License-Identifier: Apache-2.0
// Lines of a run's trace. Only made where a trace is wanted.
#pragma once

#include <cstddef>
#include <string>

#include "engine/plan/step_plan.h"
#include "engine/request/types.h"

namespace dunlin::simulation {

// "12: request 3 WHAT".
std::string Describe(engine::TimeNs now, size_t request, const std::string& what);
// "comes: 12 tokens, at most 5 more, ...".
std::string Describe(const engine::Request& request);
// "computes 4 tokens from 8, samples, pages 1 2 3".
std::string Describe(const engine::SequenceStep& step);

}  // namespace dunlin::simulation
