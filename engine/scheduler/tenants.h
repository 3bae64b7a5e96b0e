// SPDX-License-Identifier: Apache-2.0
// Fair shares between tenants. Each has a count of the tokens that steps have computed for it, prompts and outputs
// alike; of those with prompts to compute, the one with the lowest count is next: deficit round robin in which a round
// is as long as it takes. A count stays within window() tokens of the lowest count of a tenant with prompts: so much is
// a tenant that was idle owed, and so much does one owe that had the engine to itself. Some tenants without sequences
// are remembered for a while, because their next request is to find room. Thread rule: the engine thread only. Nothing
// is allocated after construction. Source: Shreedhar & Varghese 1995, deficit round robin; Sheng et al. 2024, virtual
// token counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

// Profiles within one model: the other fields of a profile are the same in all of them.
inline constexpr size_t kNumProfiles = size_t{kernels::kNumAttentionBackends} * kernels::kNumPrecisions;
constexpr size_t ProfileIndex(const ExecutionProfile& profile) {
  return static_cast<size_t>(profile.attention_backend) * kernels::kNumPrecisions +
         static_cast<size_t>(profile.precision);
}

// What a tenant's prompts may still get while a plan is made.
struct TenantPlan {
  int32_t long_tokens = 0;                     // for long prompts
  int32_t long_beside_short = 0;               // the same, once a short prompt ends in the step
  bool short_ends = false;                     // a short prompt ends in the step
  std::array<bool, kNumProfiles> served = {};  // profiles of which a prompt has been given tokens
  // Of each profile, prompts can be started only below this priority: one of that priority has not found pages.
  std::array<int64_t, kNumProfiles> open_below;

  TenantPlan() { open_below.fill(std::numeric_limits<int64_t>::max()); }
  int32_t long_limit() const { return short_ends ? long_beside_short : long_tokens; }
};

struct Tenant {
  TenantId id = kSharedTenant;
  int32_t index = 0;        // in the table; constant while it has sequences
  int32_t priority = 0;     // the highest of its sequences, or of those that it had last
  int32_t num_waiting = 0;  // sequences
  int32_t num_running = 0;
  int64_t count = 0;        // tokens computed, as compared with those of others
  int64_t busy_tokens = 0;  // of these, since it last had no prompt to compute
  // Tokens of its long prompts since a short one was started; at first as if that had been long ago.
  int64_t long_since_short = std::numeric_limits<int32_t>::max();
  // So many times longer than expected its sequences have to be taken for, as of caution_time (scheduler_deadline.cc).
  double caution = 1.0;
  TimeNs caution_time = 0;
  TimeNs last_live = 0;              // when its last sequence ended
  bool has_running_prompts = false;  // in the plan being made
  bool is_behind = false;            // has had more than another one, and its prompts never end
  int32_t rank = 0;                  // in ordered()
  TenantPlan plan = TenantPlan();    // of those in ordered()

  bool has_prompts() const { return num_waiting > 0 || has_running_prompts; }
  bool is_live() const { return num_waiting + num_running > 0; }
};

class Tenants {
 public:
  static constexpr TimeNs kMemory = 60'000'000'000;  // for how long one without sequences is remembered
  static constexpr size_t kMaxRemembered = 32;       // of these; then the one that has been idle for longest is not
  static constexpr int32_t kWindowSteps = 8;         // a tenant that was idle is owed the tokens of so many steps

  // At most max_live sequences are live at once.
  Tenants(int32_t max_live, int32_t max_tokens_per_step);

  // The tenant of a new sequence of this priority, which waits.
  Tenant* Join(TenantId id, int32_t priority);
  // Before a plan: no tenant is known to have running prompts.
  void Clear() {
    for (Tenant* tenant : known_) tenant->has_running_prompts = false;
  }
  // Begins a plan: forgets, and puts those that have prompts in order. REQUIRES: has_running_prompts is set.
  void BeginPlan(TimeNs now);
  // Of the plan: the order in which tenants are served, within a priority.
  const std::vector<Tenant*>& ordered() const { return ordered_; }
  // Whether there are others than one.
  bool several() const { return known_.size() > 1; }
  const std::vector<Tenant*>& known() const { return known_; }
  size_t num_known() const { return known_.size(); }
  int64_t window() const { return window_; }

  // `num_tokens` of a tenant are computed.
  static void Charge(int32_t num_tokens, Tenant* tenant) {
    tenant->count += num_tokens;
    tenant->busy_tokens += num_tokens;
  }

 private:
  void Forget(TimeNs now);
  void ForgetOne();
  void AdvanceFloor();

  int64_t window_;
  int64_t floor_ = 0;           // the lowest count of a tenant with prompts to compute; never falls
  std::vector<Tenant> table_;   // [max_live + kMaxRemembered]
  std::vector<Tenant*> free_;   // of the table
  std::vector<Tenant*> known_;  // the others
  std::vector<Tenant*> ordered_;
};

}  // namespace dunlin::engine
