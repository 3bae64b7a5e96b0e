// SPDX-License-Identifier: Apache-2.0
// What a seed stands for: the sizes of the engine and the requests that come, with the time and the manner of each.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "tests/simulation/fake_runtime.h"
#include "tests/simulation/reference.h"

namespace dunlin::simulation {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // In [low, high].
  int32_t Between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int32_t n) { return Between(1, n) == 1; }
  uint64_t Word() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

struct PlannedRequest {
  engine::Request request;
  size_t sink_room = 0;  // tokens after which its reader is too slow
  engine::TimeNs cancel_at = engine::kNoDeadline;
};

struct Workload {
  engine::SchedulerOptions scheduler;
  FakeRuntimeOptions runtime;
  int32_t num_tenants = 1;
  int32_t max_forced_tokens = 0;         // of constrained requests
  std::vector<PlannedRequest> requests;  // by arrival
};

Workload MakeWorkload(Dice* dice);

// An automaton over all tokens but 0 and `eos_token_ids`: some places force a token, some have none or fail, some are
// complete.
std::shared_ptr<const engine::TokenConstraint> AnyConstraint(Dice* dice, int32_t vocab_size,
                                                             const std::vector<engine::TokenId>& eos_token_ids = {
                                                                 kEos});

}  // namespace dunlin::simulation
