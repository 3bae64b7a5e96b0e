// SPDX-License-Identifier: Apache-2.0
// One request inside the engine. Engine::Submit creates it on the caller's thread with all its memory; from then on
// only the engine thread touches it, until it is retired.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cache/page.h"
#include "engine/cache/state_pool.h"
#include "engine/request/tenant_queue_usage.h"
#include "engine/request/types.h"
#include "engine/sampling/constrained_output.h"
#include "engine/sampling/token_counts.h"
#include "engine/speculation/drafter.h"

namespace dunlin::engine {

// kWaiting: no pages, nothing computed. kRunning: may have pages and tokens in flight. kRetiring: OnFinish has been
// called, but tokens are still in flight, so the pages are kept. kFinished: the scheduler no longer refers to it.
enum class SequenceState : uint8_t { kWaiting, kRunning, kRetiring, kFinished };

struct Tenant;

inline constexpr TokenId kNoToken = -1;

// What a sequence of a recurrent model holds besides pages. The state at its next position is in `source` where that is
// a slot, which its next step leaves as it is and goes on from in `slot`; else it is in `slot`.
struct SequenceStates {
  StateSlot slot = kNoStateSlot;  // its own, while it runs
  StateSlot source = kNoStateSlot;
  StateSlot kept = kNoStateSlot;  // has the state at kept_end once the launched steps are committed, for the cache
  int32_t kept_end = 0;
  // Those of the states after the drafts of the plan that it is in: the first num_drafted, of which the first
  // num_accepted have been given back or are `slot`.
  std::array<StateSlot, kMaxDrafts> drafted = {};
  int32_t num_drafted = 0;
  int32_t num_accepted = 0;
  int32_t border = 0;               // where others need the state, too; of no meaning once it is computed
  uint64_t keeper = 0;              // KeptState::keeper, of this run
  uint64_t taken = 0;               // serial of the unproven state that it began with
  bool on_trial = false;            // it has kept or taken unproven states
  uint64_t looked_at = 0;           // KeptStates::last_serial() when it last looked for cached pages
  StateSlot output = kNoStateSlot;  // where it has kept the last state of its output
  uint64_t output_serial = 0;
};

// Of a sequence whose next tokens a draft model guesses, too.
struct ModelDrafts {
  bool on = false;
  bool guessed = false;          // SequenceDrafts::guesses are the model's
  TokenId looked_up = kNoToken;  // while guessed: what the sequence's own drafter guesses first
  double acceptance = 0.0;       // how often a guess is right whose predecessors were
  int32_t num_shown = 0;         // known tokens when it was last asked
  int32_t rest_until = 0;        // it isn't asked before so many tokens are known
  int32_t rest_tokens = 0;       // how long it rests next
};

// Of a sequence whose next tokens are guessed.
struct SequenceDrafts {
  std::unique_ptr<Drafter> drafter;  // null: they are not
  int32_t max = 0;                   // of a step; > 0 with a drafter
  // Guesses at the tokens after the known ones, made for the last plan that the sequence was in; capacity max. Of these
  // the first num_planned are in the plan; none in place of tokens that a plan does not draw from.
  std::vector<TokenId> guesses;
  int32_t num_planned = 0;
  // How often a guess of the drafter is right whose predecessors were; of those that were not in a plan, too.
  double acceptance = 0.5;
  int32_t num_learned = 0;  // guesses that it comes from, up to a limit
  ModelDrafts model;
};

struct Sequence {
  RequestId id = 0;
  int32_t slot = -1;         // the scheduler's, from Add until it is retired; names the sequence in plans
  Tenant* tenant = nullptr;  // the scheduler's, while it waits or runs
  TenantQueueUsage* queue_usage = nullptr;  // the mailbox's; null without one
  Request request;
  std::shared_ptr<OutputSink> sink;

  std::vector<TokenId> tokens;  // prompt, then output; capacity prompt + max_tokens from the start
  TokenCounts counts;           // of these; started when a penalty applies
  // Under a constraint: which tokens may come next. A function of the output so far, so that a preemption keeps it.
  std::shared_ptr<ConstrainedOutput> constrained;
  int32_t num_forced = 0;  // tokens at the end that were appended behind the last drawn one
  SequenceDrafts drafts;
  int32_t prompt_len = 0;
  int32_t num_computed = 0;   // tokens whose K and V are in pages and committed
  int32_t num_in_flight = 0;  // tokens launched and not yet committed
  int32_t plan_index = -1;    // in StepPlan::sequences of the last plan that it was in
  // [page sets, KvGroups::count()] in order of position; capacity for the longest from the start. kNoPage for pages
  // that have been given back: those of sliding groups in the first num_behind page sets.
  std::vector<PageId> pages;
  int32_t num_behind = 0;
  int32_t tokens_per_page = 0;  // of its KV dtype
  SequenceStates states;        // of a recurrent model
  PrefixChain chain;            // of its first pages, those that the prefix cache holds
  int32_t num_proven = 0;       // of these: pages that its own finite rows have proven
  bool on_trial = false;        // it has taken unproven pages and has had no finite row since
  bool proven_only = false;     // a row over unproven pages was not finite: it takes none any more
  int32_t num_planned = 0;      // tokens of the plan being made; 0 outside Scheduler::Plan
  int32_t prefill_tokens = 0;   // tokens left to compute when it was last started; unset before that
  int64_t passed_tokens = 0;    // of newer sequences started while it was the oldest waiting one of its tenant
  bool begun_in_time = false;   // it was expected to end by its deadline when it began, beside others
  bool follows = false;         // in the plan being made: waits for pages that an older one computes
  // Admission found no room with this many spare pages: its prompt is not hashed again until there are more.
  int64_t blocked_pages = -1;

  SequenceState state = SequenceState::kWaiting;
  int32_t next_scored_position = 1;  // with prompt_logprobs: the next prompt position to score
  FinishInfo info;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_output() const { return num_tokens() - prompt_len; }
  // The next position to launch, and how many known tokens there are from there on. None is left while a draw is in
  // flight, whose token is not known yet; -1 where that has been launched, too (Scheduler::GoesOn).
  int32_t next_position() const { return num_computed + num_in_flight; }
  int32_t num_uncomputed() const { return num_tokens() - next_position(); }
  // Draws in flight while it runs: of the last known token, and of the one that it gives where that is launched.
  int32_t num_draws() const { return num_in_flight > 0 ? std::max(0, 1 - num_uncomputed()) : 0; }
  // What is left to compute: the last drawn token and those forced behind it, or more.
  bool decodes() const { return num_uncomputed() > 0 && num_uncomputed() <= 1 + num_forced; }
  bool prefills() const { return num_uncomputed() > 1 + num_forced; }
  // Tokens whose K and V are ever needed: all but the last one drawn.
  int32_t max_kv_tokens() const { return prompt_len + request.stopping.max_tokens - 1; }
};

// A sequence with all memory that it will ever need. kv_groups: KvGroups::count(). REQUIRES: a validated request,
// tokens_per_page > 0.
std::unique_ptr<Sequence> MakeSequence(Request request, std::shared_ptr<OutputSink> sink, int32_t tokens_per_page,
                                       int32_t kv_groups = 1);

// Starts the request's constraint, if it has one, and computes its first mask. The grammar's end ends the output, so
// ignore_eos is off from then on. max_forced: as EngineOptions::max_forced_tokens; a request for logprobs has none
// forced. max_drafts: of StartDrafts. Takes as long as the constraint's state needs for a few masks.
void StartConstraint(Sequence* sequence, int32_t vocab_size, int32_t max_forced, int32_t max_drafts);

// Starts guessing at most max_drafts tokens a step, in [0, kMaxDrafts], with the drafter of `traits`. None where a
// token's bits depend on its neighbours.
void StartDrafts(Sequence* sequence, int32_t max_drafts, const DrafterTraits& traits);

}  // namespace dunlin::engine
