// SPDX-License-Identifier: Apache-2.0
// Decides what each step computes. Continuous batching without phases: a sequence has known tokens and computed tokens,
// and a step closes the gap under one token budget; prefill is a wide gap, decode is a gap of one.
//
// Order: higher priority, then earlier arrival ("older"). Decodes get budget first, oldest first. The rest goes to
// prompts, running and waiting alike: one of each profile first, then the others, shortest first. What a prompt cannot
// use, by the rules below or for lack of pages, goes to a lower priority.
//
// | rule within a tenant     | bound                                        | reason                                 |
// |--------------------------|----------------------------------------------|----------------------------------------|
// | oldest running prompt    | gets 1/4 of the step                         | shortest first must not starve it      |
// | oldest waiting sequence  | passed by a bounded number of tokens         | the same (waiting_queue.h)             |
// | long prompts             | 1/4 together in a step in which a short one  | the short one's first token waits for  |
// |                          | ends, and while short ones keep arriving     | the whole step, or for the step in     |
// |                          |                                              | progress                               |
// | oldest running sequence  | in every plan it can be in, never preempted, | it always finishes: no livelock        |
// |                          | may take every page                          |                                        |
// | newest running sequence  | gives back all its pages when they run out   | recompute preemption                   |
// | shared prefix            | the oldest computes it, others take the      | others wait only where that is faster  |
// |                          | pages as they fill                           | (scheduler_follow.cc)                  |
// | deadline                 | a sequence starts only if it and those that  | one that another one could replace     |
// |                          | run are expected to end in time; always if   | ends with kDeadline before it costs a  |
// |                          | it has no deadline or nothing runs           | step (service_forecast.h)              |
// | drafts                   | what the step has left, of sequences that    | a guess costs a row; it pays where it  |
// |                          | decode, while they are expected to pay       | is right (draft_choice.h)              |
// | forced tokens            | one with the drawn token; more of them share | known at once (constrained_output.h)   |
// |                          | 1/4 of the step                              |                                        |
// | step time target         | prompts get what decodes leave of it, or as  | short gaps between tokens, and prompts |
// |                          | much as those take; >= 1 page of the oldest  | still progress (step_cost.h)           |
// |                          | and of the first short prompt                |                                        |
// | recurrent layers         | a sequence starts with a slot for its state, | a state is one sequence's; those that  |
// |                          | or waits; prompts are cut where one is kept  | the prefix cache keeps make room       |
// |                          | for several                                  | (sequence_states.cc)                   |
// | pool without all of its  | a sequence that does not fit waits, and is   | memory that comes late or never: the   |
// | memory                   | passed, while it grows; then it ends         | rest goes on (kv_pool_state.h)         |
// | sliding layers           | pages outside the window go back after each  | admission counts the most that a       |
// |                          | commit                                       | sequence holds (KvGroups::MostPages)   |
//
// Between tenants, within a priority, the one for which the fewest tokens have been computed is next (tenants.h). A
// tenant is "behind" when its prompts never end and it has had more tokens than another one. Isolation goal: under
// another tenant's flood the TTFT of a light tenant stays within twice that of an idle engine.
//
// | rule between tenants     | bound                                        | reason                                 |
// |--------------------------|----------------------------------------------|----------------------------------------|
// | tenants behind           | 1/8 of the step together, decodes included   | the next light prompt waits for the    |
// |                          |                                              | step in progress                       |
// | and beside prompts of    | alternating steps: prompts 1/16, then 1/64   | the light prompt shares its own step   |
// | others                   | of the oldest prompt or one decode           | with little                            |
// | sequences of a tenant    | at most 7 times the free ones                | dynamic threshold (tenant_share.h)     |
// | pages of a tenant        | none of the last 1/8 for a new sequence of   | a new tenant finds room                |
// |                          | one with more than its part of the sequences |                                        |
// | sequence without room    | holds back the tenants after its own         | its turn is not lost                   |
//
// Pure: time is an argument, the device is elsewhere, nothing is allocated after construction. At depth 2 Plan is
// called again before Commit: a sequence whose sample is in flight is left out, prefill chunks may follow one another.
// Thread rule: the engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/page.h"
#include "engine/plan/sequence_view.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/engine_stats.h"
#include "engine/request/kv_pool_state.h"
#include "engine/request/types.h"
#include "engine/scheduler/draft_choice.h"
#include "engine/scheduler/sequence_list.h"
#include "engine/scheduler/sequence_pages.h"
#include "engine/scheduler/service_forecast.h"
#include "engine/scheduler/step_cost.h"
#include "engine/scheduler/tenants.h"
#include "engine/scheduler/waiting_queue.h"
#include "engine/speculation/batch_drafter.h"

namespace dunlin::engine {

struct SchedulerOptions {
  int32_t max_sequences = 64;  // running at once
  int32_t max_tokens_per_step = 512;
  int32_t max_live = 320;  // waiting, running and retiring together
  bool prefix_cache = true;
  // Prompt tokens that take about as long as the fixed part of a step: a sequence waits for the pages of another one
  // only if it saves as many. 32: the rates of prefill and of single decodes are 10 to 30 apart on the CPUs of
  // docs/benchmarks.md.
  int32_t step_overhead_tokens = 32;
  TimeNs step_time_target = 0;  // 0: none
  // Whether the device gives a token the same bits in prefill and in decode. If not, decoded pages stay out of the
  // prefix cache, and tokens decoded before a preemption are decoded again, one by one.
  bool prefill_matches_decode = true;
  // While a step draws, the next one is planned over what it will draw, so that the device need not wait for the host.
  // Of two steps in flight at most; the runtime takes such plans (Runtime::takes_drawn_tokens).
  bool plan_ahead = false;
  bool adapt_drafts = true;  // verify guesses only while that is expected to pay; else all that find room
  // With a BatchDrafter: sequences of one call; it rests while more decode. 0: there is none.
  int32_t max_batch_drafts = 0;
  bool drafts_write_pages = false;  // BatchDrafter::writes_pages
  std::vector<TokenId> eos_token_ids;
  PrefixCacheOptions cache;                // pages of the pool, their groups, the hash, and slots of states
  StateBorders state_borders;              // of a recurrent model
  int32_t max_page_sets_per_sequence = 0;  // PagesFor its longest context; 0: as many as the pool has pages
  std::optional<KvPoolState> pool;         // at first; none: all pages may be used
};

// Counters since construction.
struct SchedulerCounters : SequenceCounters {
  uint64_t dequeued_requests = 0;  // scheduled for the first time, or ended before that
  uint64_t dequeued_tokens = 0;    // prompt tokens of those
};

class Scheduler {
 public:
  // Short prompts are expected until long ones have had the tokens of this many steps with none in between.
  static constexpr int32_t kStepsToForgetShort = 16;
  // Calls of a draft model after which their learned cost decides; until then its size is taken for a usual one.
  static constexpr int32_t kDraftCallsToTrust = 8;
  // Rows of logits that drafts may add to a step.
  static constexpr int32_t kMaxDraftRows = 256;
  // So many times the expected time is what a sequence must have left until its deadline to begin.
  static constexpr double kStartMargin = 1.1;

  explicit Scheduler(const SchedulerOptions& options);

  // Borrows a sequence until it is in retired().
  // REQUIRES: kWaiting, MostPages of max_kv_tokens() fit the pool, fewer than max_live are live.
  void Add(Sequence* sequence);

  // Ends a sequence with `reason`: OnFinish now, pages back now or when its tokens in flight are committed.
  // No-op when it has ended.
  void End(Sequence* sequence, FinishReason reason, TimeNs now);
  // Ends all. in_flight_lost: the launched steps will never be committed, because the device failed.
  void EndAll(FinishReason reason, TimeNs now, bool in_flight_lost);

  // Ends what is past its deadline.
  void EndExpired(TimeNs now);

  // What a BatchDrafter is to guess for the next Plan, which follows once the guesses are there; none without one, and
  // where its guesses would not pay. The demands are valid until then.
  std::span<const DraftDemand> WantedDrafts();
  // Drafting took so long.
  void LearnDrafting(const DraftWork& work, TimeNs elapsed);

  // More pages of the pool have memory, or no more will have: before a plan.
  void SetPool(const KvPoolState& pool);
  // Whether a step can be planned while one is in flight. With plan_ahead not where a sequence in flight could not be
  // in it: steps that share out the sequences would each read all weights.
  bool CanPlan() const;
  // EndExpired, then fills *plan, which is Reserved for these options. The plan counts as launched.
  // An empty plan while a sequence is live means that all live sequences are in flight or, while the pool grows, wait
  // for its pages.
  void Plan(TimeNs now, StepPlan* plan);

  // Commits the result of the oldest launched plan: tokens, scores and ends go to the sinks.
  void Commit(const StepPlan& plan, const StepResult& result, TimeNs now);

  // Sequences that have ended and hold no pages, in the order in which they ended; the scheduler no longer refers to
  // them. The caller clears the vector.
  std::vector<Sequence*>& retired() { return retired_; }

  // Constrained outputs to which the last Commit gave a token, or the last Plan guesses: their next masks are to be
  // computed, at the latest when the next step samples. The caller may move them away.
  std::vector<std::shared_ptr<ConstrainedOutput>>& advanced() { return advanced_; }

  // Takes every page out of the prefix cache. Sequences keep theirs; what they publish later stands alone.
  void ClearCache() { pages_.ClearCache(); }

  bool empty() const { return waiting_.empty() && running_.empty() && retiring_.empty(); }
  const SequenceList& waiting() const { return waiting_.by_age(); }
  const SequenceList& running() const { return running_; }
  int32_t num_pages_used() const { return num_usable_pages() - pages_.pool().num_free(); }
  int32_t num_pages() const { return pages_.pool().num_pages(); }
  int32_t num_usable_pages() const { return pages_.pool().num_usable(); }
  bool pool_grows() const { return pool_grows_; }
  // Whether the pool has the pages for a sequence's known tokens and one page of tokens to come, of which other
  // sequences may hold some. One that does not fit waits while the pool grows, and ends once it does not.
  bool Fits(const Sequence& sequence) const { return MostWanted(sequence) <= num_usable_pages(); }
  int32_t num_states() const { return pages_.states().num_slots(); }
  int32_t num_states_used() const { return num_states() - pages_.states().num_free(); }
  int32_t num_states_kept() const { return pages_.cache().states().num_kept(); }
  const SchedulerCounters& counters() const { return counters_; }
  const SequencePages& pages() const { return pages_; }
  const ServiceForecast& forecast() const { return forecast_; }
  const Tenants& tenants() const { return tenants_; }
  // Tenant::caution now: it falls back to 1.
  static double CautionOf(const Tenant& tenant, TimeNs now);

  // Every page is free or listed by exactly as many sequences as it has references; shared pages are full; states and
  // lists agree. INTERNAL with the first contradiction. Allocates, O(pages); for tests and idle moments.
  absl::Status CheckIntegrity() const;

 private:
  // What is left for prompts while a plan is made; TenantPlan has what is a tenant's own.
  struct PrefillBudget {
    int32_t tokens;             // of the step
    int32_t behind_tokens;      // of these, for tenants that are behind
    double time = 0.0;          // that prompts may still add to the step, ns
    bool timed = false;         // there is such a limit
    bool empty = true;          // no prompt has been given tokens
    bool short_served = false;  // a short one has
  };

  // After so many more outputs each, some of those that run have ended, `time` ns from now.
  struct Drain {
    int32_t outputs;
    double time;
  };

  // Planning (scheduler_plan.cc).
  int32_t quarter() const { return std::max(1, options_.max_tokens_per_step / 4); }
  int32_t ChunkOf(const Sequence& sequence, int32_t budget) const;
  bool EndsByLength(const Sequence& sequence) const;
  bool GoesOn(const Sequence& sequence) const;
  int32_t ShareOfOldest() const;
  void EndUnfit(TimeNs now);
  int32_t PlanDecodes(int32_t budget);
  void ReservePages();
  Sequence* NewestIdleAfter(size_t index) const;
  void Preempt(Sequence* sequence);

  // Drafts (scheduler_drafts.cc).
  void PlanDrafts();
  void Guess(Sequence* sequence) const;
  DraftChoice::Choice ChooseDrafts(const DraftStep& step, double acceptance, int32_t limit) const;
  // Pages for tokens at positions from `first` on, `wanted` at most: for how many there are some.
  int32_t ReserveDraftPages(Sequence* sequence, int32_t first, int32_t wanted);
  int32_t ReserveDrafts(Sequence* sequence, int32_t wanted);
  int32_t StatesToLeave() const;
  // Asks for the masks behind the drafts that are planned.
  void ConstrainDrafts(Sequence* sequence);
  // The draws of plan.sequences[index], one after another, as far as they count.
  void CommitDraws(Sequence* sequence, const StepPlan& plan, size_t index, const StepResult& result, TimeNs now);
  void LearnGuess(TokenId drawn, size_t draw, SequenceDrafts* drafts);
  void CountDrafts(Sequence* sequence, size_t num_drafts);
  void CountAccepted(Sequence* sequence, size_t draw);

  // Drafts of a model (scheduler_model_drafts.cc).
  void StartModelDrafts(SequenceDrafts* drafts) const;
  int32_t NumModelDrafts(Sequence* sequence, DraftStep* step) const;
  double TimePerGuess(double num_sequences, int32_t rows) const;

  void Fill(StepPlan* plan);
  void FillStepOf(Sequence* sequence, SequenceStep* step, StepPlan* plan);
  SequenceView ViewOf(const Sequence& sequence, const StateView& state) const;

  // Sharing pages while they are filled (scheduler_follow.cc).
  void TakePublishedPages();
  int32_t SharedEnd(const Sequence& sequence, const Sequence& other, int32_t reached) const;
  int32_t SharedStateEnd(const Sequence& sequence, const Sequence& other) const;
  bool Follows(const Sequence& sequence, int32_t limit);

  // Deadlines of what has not begun (scheduler_deadline.cc).
  ServiceForecast::Demand DemandOf(const Sequence& sequence, TimeNs now) const;
  bool MayBeLate(const Sequence& sequence) const;
  bool Outranks(const Sequence& sequence) const;
  bool StartsInTime(const Sequence& sequence, TimeNs now);
  bool LeavesOthersInTime(const Sequence& sequence, TimeNs now);
  int32_t OutputsLeft(const Sequence& sequence) const;
  void ForecastDrain();
  double TimeToDrain(int32_t outputs) const;
  void EndLate(TimeNs now);
  void LearnEnd(const Sequence& sequence, FinishReason reason, TimeNs now);

  // Planning prompts (scheduler_prefill.cc).
  // By its length at the start, not by what is left: else the ends of long prompts would crowd out short ones.
  bool IsLong(const Sequence& sequence) const {
    const bool waits = sequence.state == SequenceState::kWaiting;
    return (waits ? sequence.num_uncomputed() : sequence.prefill_tokens) > quarter();
  }
  void PlanPrefills(TimeNs now, int32_t tokens);
  void OrderTenants(TimeNs now);
  bool ServesOthers() const;
  void BeginTenantPlans(int32_t tokens);
  void SetTimeLimit(PrefillBudget* budget) const;
  void PlanSharesOfOldest(PrefillBudget* budget);
  int32_t TokensBehind() const;
  int32_t LimitOf(const Sequence& sequence, const PrefillBudget& budget) const;
  void StartDue(TimeNs now, PrefillBudget* budget);
  bool IsSooner(const Sequence& a, const Sequence& b) const;
  Sequence* NextPrefill(const PrefillBudget& budget) const;
  Sequence* NextWaiting(Sequence* next, const PrefillBudget& budget) const;
  Sequence* NextShortest(const Tenant& tenant, size_t profile, const PrefillBudget& budget) const;
  int32_t WithinTime(const Sequence& sequence, int32_t limit, const PrefillBudget& budget) const;
  void PlanTokens(Sequence* sequence, int32_t limit, PrefillBudget* budget);
  bool IsDue(const Sequence& oldest) const { return waiting_.is_due(oldest) && (!pool_grows_ || Fits(oldest)); }
  int64_t MostWanted(const Sequence& sequence) const;
  int64_t PagesToReserve(const Sequence& sequence) const;
  bool HasRoom(const Tenant& tenant) const;
  int64_t PagesToLeave(const Tenant& tenant) const;
  bool AttachWithRoom(Sequence* sequence);
  bool Start(Sequence* sequence, TimeNs now);
  void CountAdmission(Sequence* sequence, TimeNs now);
  void CountDequeued(const Sequence& sequence);

  // Committing (scheduler_commit.cc).
  void CommitDraw(Sequence* sequence, const StepPlan& plan, const SequenceStep& step, size_t draw,
                  const StepOutput& output, TimeNs now);
  void PublishComputed(Sequence* sequence, bool samples, const StepOutput& output);
  void LearnCost(const StepPlan& plan, TimeNs now);
  // Hands the scores of plan.sequences[index] to its sink; *next_score is the next of result.prompt_scores.
  void DeliverScores(Sequence* sequence, int32_t index, const StepResult& result, size_t* next_score);
  void Append(Sequence* sequence, const TokenOutput& token, TimeNs now);
  void AdvanceConstraint(Sequence* sequence, TimeNs now);
  // Whether the request lets a forced token be drawn.
  bool Permits(const Sequence& sequence, TokenId token);
  void FinishWithoutToken(Sequence* sequence, TimeNs now);
  bool IsStopToken(const Sequence& sequence, TokenId token) const;

  // Ending (scheduler.cc).
  void Finish(Sequence* sequence, FinishReason reason, TimeNs now);
  void Retire(Sequence* sequence);

  // The sequence of one step of a launched plan.
  Sequence* SequenceOf(const SequenceStep& step) const;

  SchedulerOptions options_;
  SequencePages pages_;
  Tenants tenants_;
  WaitingQueue waiting_;
  SequenceList running_;
  SequenceList retiring_;
  std::vector<Sequence*> retired_;
  std::vector<std::shared_ptr<ConstrainedOutput>> advanced_;
  std::vector<OutputSink*> committed_;  // of the sequences that a commit was for and that run on
  std::vector<TokenId> banned_;         // while a forced token is checked
  std::vector<Drain> drain_;            // while a start is considered: of those that run, fewest outputs first
  std::vector<Sequence*> slots_;        // [max_live], by Sequence::slot; null where free
  std::vector<int32_t> free_slots_;
  TimeNs nearest_deadline_ = kNoDeadline;  // no live sequence has an earlier one
  bool pool_grows_ = false;
  bool others_served_ = false;  // in the plan being made, beside tenants that are behind: prompts of others
  bool yields_ = false;         // to those; never in two plans after one another
  StepCost cost_;
  DraftChoice draft_choice_;
  std::vector<DraftDemand> demands_;
  LinearFit<2> drafting_cost_;     // rows and passes of a draft model
  int32_t drafting_learned_ = 0;   // calls that it has learned from, up to kDraftCallsToTrust
  double model_acceptance_ = 0.6;  // ModelDrafts::acceptance of recent sequences; before the first one a guess
  ServiceForecast forecast_;
  TimeNs last_commit_ = 0;
  SchedulerCounters counters_;
};

}  // namespace dunlin::engine
