// SPDX-License-Identifier: Apache-2.0
// What a seed stands for: the sizes of the engine and the requests that come, with the time and the manner of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "tests/simulation/fake_runtime.h"
#include "tests/simulation/reference.h"

namespace dunlin::simulation {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // Draws `bytes`, which outlive it, while there are any: a fuzzer chooses what comes. Then as Dice(0).
  explicit Dice(std::span<const uint8_t> bytes) : engine_(0), bytes_(bytes) {}
  // In [low, high].
  int32_t Between(int32_t low, int32_t high) {
    const auto range = static_cast<uint64_t>(high - low + 1);
    return low + static_cast<int32_t>((bytes_.empty() ? engine_() : NextBytes(range <= 256 ? 1 : 4)) % range);
  }
  bool OneIn(int32_t n) { return Between(1, n) == 1; }
  uint64_t Word() { return bytes_.empty() ? engine_() : NextBytes(8); }

 private:
  uint64_t NextBytes(size_t count) {
    uint64_t word = 0;
    for (const uint8_t byte : bytes_.first(std::min(count, bytes_.size()))) word = word << 8 | byte;
    bytes_ = bytes_.subspan(std::min(count, bytes_.size()));
    return word;
  }

  std::mt19937_64 engine_;
  std::span<const uint8_t> bytes_;
};

struct PlannedRequest {
  size_t index = 0;  // in the order in which they were drawn; names it in traces
  engine::Request request;
  size_t sink_room = 0;  // tokens after which its reader is too slow
  engine::TimeNs cancel_at = engine::kNoDeadline;
  int32_t max_drafts = 0;
};

struct Workload {
  engine::SchedulerOptions scheduler;
  FakeRuntimeOptions runtime;
  std::vector<engine::ExecutionProfile> profiles;  // that requests choose from
  int32_t num_tenants = 1;
  int32_t max_forced_tokens = 0;         // of constrained requests
  std::vector<PlannedRequest> requests;  // by arrival

  ReferenceModel model() const {
    return {runtime.vocab_size, runtime.kv_groups, runtime.decode_differs, runtime.version};
  }
};

// Whether the pool gets so little memory that the request may be ended for it.
bool MayOutgrow(const Workload& workload, const engine::Request& request);

constexpr int32_t kMaxRequests = 24;

// left_out: indexes of requests that are drawn and do not come, ascending. max_requests: what is drawn at most.
Workload MakeWorkload(Dice* dice, const std::vector<size_t>& left_out = {}, int32_t max_requests = kMaxRequests);

// An automaton over all tokens but 0 and `eos_token_ids`: some places force a token, some have none or fail, some are
// complete.
std::shared_ptr<const engine::TokenConstraint> AnyConstraint(Dice* dice, int32_t vocab_size,
                                                             const std::vector<engine::TokenId>& eos_token_ids = {
                                                                 kEos});

}  // namespace dunlin::simulation
