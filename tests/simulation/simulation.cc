// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/simulation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine/scheduler/scheduler.h"
#include "tests/simulation/answer_check.h"
#include "tests/simulation/plan_check.h"
#include "tests/simulation/recording_sink.h"
#include "tests/simulation/reference.h"
#include "tests/simulation/scripted_drafter.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {
namespace {

using engine::FinishReason;
using engine::RequestId;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceState;
using engine::StepPlan;
using engine::TimeNs;

constexpr int32_t kMaxDrawnRequests = 6;  // of a fuzzer, which tries a small run several times as often
constexpr int kMaxTurns = 20000;          // a run takes some hundreds; more is a livelock

class Simulation {
 public:
  Simulation(const Dice& dice, const RunOptions& options, SimulationStats* stats)
      : dice_(dice),
        workload_(MakeWorkload(&dice_, options.left_out, options.max_requests)),
        scheduler_(workload_.scheduler),
        runtime_(workload_.runtime),
        trace_(options.trace),
        stats_(stats) {}

  std::string Run() {
    for (int turn = 0; turn < kMaxTurns && problem_.empty(); ++turn) {
      TakeMail();
      if (scheduler_.empty() && in_flight_.empty()) {
        if (next_arrival_ == workload_.requests.size()) return Finish();
        now_ = std::max(now_, workload_.requests[next_arrival_].request.arrival);
        continue;
      }
      Turn();
      Check();
    }
    return problem_.empty() ? "no end: a livelock" : problem_;
  }

 private:
  struct Live {
    const PlannedRequest* planned;
    std::unique_ptr<Sequence> sequence;
    std::shared_ptr<RecordingSink> sink;
  };
  struct InFlight {
    std::unique_ptr<StepPlan> plan;
    engine::StepHandle handle;
  };

  const engine::KvGroups& groups() const { return workload_.runtime.kv_groups; }

  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = what + " at time " + std::to_string(now_);
  }

  void Count(Event event, int64_t times) { (*stats_)[event] += times; }

  void Note(RequestId id, const std::string& what) {
    if (trace_ != nullptr) trace_->push_back(Describe(now_, live_[id - 1].planned->index, what));
  }

  void Expect(const std::string& problem) {
    if (!problem.empty()) Fail(problem);
  }

  void TakeMail() {
    for (; next_arrival_ < workload_.requests.size(); ++next_arrival_) {
      const PlannedRequest& planned = workload_.requests[next_arrival_];
      if (planned.request.arrival > now_) break;
      const auto tpp = workload_.runtime.tokens_per_page[static_cast<size_t>(planned.request.profile.precision)];
      auto sink = std::make_shared<RecordingSink>(64, 64, planned.sink_room);
      auto sequence = engine::MakeSequence(planned.request, sink, tpp, groups().count());
      sequence->id = next_arrival_ + 1;
      engine::StartConstraint(sequence.get(), workload_.runtime.vocab_size, workload_.max_forced_tokens,
                              planned.max_drafts);
      StartGuessing(planned, sequence.get());
      scheduler_.Add(sequence.get());
      live_.push_back({&planned, std::move(sequence), std::move(sink)});
      Note(next_arrival_ + 1, Describe(planned.request));
    }
    for (Live& live : live_) {
      if (live.planned->cancel_at > now_ || live.sequence->state == SequenceState::kFinished) continue;
      if (live.sequence->state != SequenceState::kRetiring) Note(live.sequence->id, "is cancelled");
      scheduler_.End(live.sequence.get(), FinishReason::kCancelled, now_);
      if (live.sequence->num_in_flight == 0 && !live.sequence->pages.empty()) Fail("a cancelled sequence keeps pages");
    }
  }

  // Guesses of an answer that is known, so that some are right.
  void StartGuessing(const PlannedRequest& planned, Sequence* sequence) {
    if (!workload_.scheduler.prefill_matches_decode) return;
    engine::StartDrafts(sequence, planned.max_drafts, engine::DefaultDrafter());
    if (sequence->drafts.drafter == nullptr || dice_.OneIn(4)) return;
    Answer answer = RunAlone(planned.request, {kEos}, workload_.model());
    sequence->drafts.drafter = std::make_unique<ScriptedDrafter>(std::move(answer.tokens), sequence->prompt_len,
                                                                 workload_.runtime.vocab_size, dice_.Word());
  }

  // The pool gets memory now and then, and when nothing can go on without.
  void GrowPool() {
    if (!scheduler_.pool_grows() || !(awaits_pages_ || dice_.OneIn(4))) return;
    runtime_.GrowPool(dice_.Between(1, 3));
    scheduler_.SetPool(runtime_.kv_pool());
    const bool too_small = !scheduler_.pool_grows() && scheduler_.num_usable_pages() < scheduler_.num_pages();
    Count(Event::kPoolsTooSmall, too_small ? 1 : 0);
  }

  // Whether the pool may have all that is asked of it, some pages later.
  bool PagesMayCome() const {
    return scheduler_.pool_grows() && scheduler_.num_usable_pages() - scheduler_.num_pages_used() < groups().count();
  }

  // One turn of the engine loop.
  void Turn() {
    GrowPool();
    if (dice_.OneIn(100)) {
      scheduler_.ClearCache();
      Count(Event::kCacheCleared, 1);
    }
    if (!in_flight_.empty() && !scheduler_.CanPlan()) return Collect();
    auto plan = std::make_unique<StepPlan>();
    plan->mask_words = kernels::MaskWords(workload_.runtime.vocab_size);
    const std::vector<Sequence*> ran(scheduler_.running().begin(), scheduler_.running().end());
    const std::vector<Sequence*> waited(scheduler_.waiting().begin(), scheduler_.waiting().end());
    const Share share = ShareOf(ran);
    const uint64_t preemptions = scheduler_.counters().preemptions;
    scheduler_.Plan(now_, plan.get());
    for (const Sequence* sequence : scheduler_.running()) {
      const int64_t follows = sequence->follows ? 1 : 0;
      Count(Event::kFollowed, follows);
      if (workload_.runtime.num_state_slots > 0) Count(Event::kRecurrentFollowed, follows);
    }
    for (const engine::SequenceStep& step : plan->sequences) {
      if (trace_ != nullptr) Note(step.request_id, Describe(step));
      Count(Event::kPlannedAhead, step.drawn_by >= 0 ? 1 : 0);
    }
    Count(Event::kMixedSteps, plan->sub_batches.size() > 1 ? 1 : 0);
    CheckPreempted(ran);
    CheckPassed(waited);
    // What a preemption frees may come too late in a plan for the oldest prompt.
    if (scheduler_.counters().preemptions == preemptions) CheckShare(share, *plan);
    CheckPlan(*plan);
    Expect(CheckNewPlan(*plan, find_, groups()));
    Expect(CheckSalts(scheduler_.running()));
    now_ += dice_.Between(0, 2);
    const bool planned = !plan->empty();
    if (planned) {
      const engine::StepHandle handle = *runtime_.Launch(*plan);
      in_flight_.push_back({std::move(plan), handle});
      if (static_cast<int32_t>(in_flight_.size()) < runtime_.depth()) return;
    }
    awaits_pages_ = in_flight_.empty() && !scheduler_.empty();
    Count(Event::kAwaitedPages, awaits_pages_ ? 1 : 0);
    if (awaits_pages_ && !scheduler_.pool_grows()) Fail("nothing can be planned and nothing is in flight");
    if (!in_flight_.empty()) Collect();
  }

  void Collect() {
    Expect(CheckPagesKept(*in_flight_.front().plan, find_, groups()));
    engine::StepResult result;
    if (!runtime_.Collect(in_flight_.front().handle, &result).ok()) Fail("collect failed");
    scheduler_.Commit(*in_flight_.front().plan, result, now_);
    in_flight_.pop_front();
    // As a mask thread does that finds the time for some of them, also where the sequence ends before its next step.
    for (const auto& output : scheduler_.advanced()) {
      if (dice_.OneIn(2)) output->Compute();
    }
    Count(Event::kForced, NumForced());
    for (const Sequence* sequence : scheduler_.running()) Count(Event::kSlid, sequence->num_behind > 0 ? 1 : 0);
    scheduler_.retired().clear();
    Count(Event::kSteps, 1);
  }

  int32_t NumForced() const {
    int32_t forced = 0;
    for (const Sequence* sequence : scheduler_.running()) {
      if (sequence->decodes()) forced += sequence->num_uncomputed() - 1;
    }
    return forced;
  }

  // Whoever lost its pages was the newest of those that a launched step did not hold: all of them, at depth 1.
  void CheckPreempted(const std::vector<Sequence*>& ran) {
    for (const Sequence* preempted : ran) {
      if (preempted->state != SequenceState::kWaiting) continue;
      Note(preempted->id, "is preempted");
      if (runtime_.depth() > 1) continue;
      for (const Sequence* kept : ran) {
        const bool newer = engine::IsOlder(preempted, kept);
        if (newer && kept->state == SequenceState::kRunning) Fail("an older sequence was preempted than need be");
      }
    }
  }

  // What the oldest prompt that runs must get of a step.
  struct Share {
    const Sequence* sequence = nullptr;  // null when no prompt runs
    int32_t tokens = 0;
  };

  Share ShareOf(const std::vector<Sequence*>& running) const {
    const int32_t step = workload_.scheduler.max_tokens_per_step;
    bool older_decodes = false;
    for (const Sequence* sequence : running) {
      older_decodes |= sequence->decodes();
      if (!sequence->prefills() || sequence->request.deadline <= now_) continue;
      int32_t chunk = sequence->num_uncomputed();
      if (!workload_.scheduler.prefill_matches_decode) {  // prefill ends with the prompt, the rest is decoded again
        chunk = std::clamp(sequence->prompt_len - sequence->next_position(), 1, chunk);
      }
      const bool timed = workload_.scheduler.step_time_target > 0;  // then a page is all that it is sure of
      const int32_t part = std::max(1, step / (workload_.num_tenants > 1 ? 64 : 4));  // a tenant may be behind
      return {sequence,
              std::min({chunk, part, older_decodes ? step - 1 : step, timed ? sequence->tokens_per_page : chunk})};
    }
    return {};
  }

  // It may only get less when pages are what is short.
  void CheckShare(const Share& share, const StepPlan& plan) {
    if (share.sequence == nullptr || share.sequence->state != SequenceState::kRunning) return;
    if (share.sequence->follows || !share.sequence->prefills()) return;  // others compute its pages
    if (scheduler_.num_usable_pages() - scheduler_.num_pages_used() < groups().count()) return;
    for (const engine::SequenceStep& step : plan.sequences) {
      if (step.request_id != share.sequence->id) continue;
      // Pages that it took from others may have brought it to the end of its prompt, from where it decodes again.
      const bool decodes_next = !workload_.scheduler.prefill_matches_decode;
      const int32_t chunk = decodes_next ? std::max(1, step.prompt_len - step.first_position) : share.tokens;
      if (step.num_tokens >= std::min(share.tokens, chunk)) return;
      // It stops where its state is kept for others.
      if (step.first_position + step.num_tokens == share.sequence->states.border) return;
      return Fail("the oldest prompt, " + std::to_string(step.request_id) + ", has " + std::to_string(step.num_tokens) +
                  " tokens of a step; its share is " + std::to_string(share.tokens));
    }
    if (share.tokens > 0) Fail("the oldest prompt is not in a step");
  }

  // Of its tenant's that were started before the oldest one that waits, all but the last must have been within its
  // allowance.
  void CheckPassed(const std::vector<Sequence*>& waited) {
    if (scheduler_.waiting().empty() || waited.empty() || scheduler_.waiting().first() != waited.front()) return;
    const Sequence* oldest = waited.front();
    int64_t* passed = &passed_[oldest];
    int64_t largest = 0;
    for (const Sequence* sequence : waited) {
      if (sequence->state != SequenceState::kRunning) continue;
      if (sequence->request.tenant != oldest->request.tenant) continue;
      *passed += sequence->num_tokens();
      largest = std::max<int64_t>(largest, sequence->num_tokens());
    }
    const int64_t allowed =
        std::max<int64_t>(workload_.scheduler.max_tokens_per_step, int64_t{3} * oldest->num_tokens());
    if (scheduler_.pool_grows() && !scheduler_.Fits(*oldest)) return;  // the pool has no pages for it yet
    if (largest > 0 && *passed - largest >= allowed) Fail("the oldest one that waits was passed too often");
  }

  void CheckPlan(const StepPlan& plan) {
    if (plan.num_tokens > workload_.scheduler.max_tokens_per_step) Fail("a plan over the token budget");
    if (static_cast<int32_t>(scheduler_.running().size()) > workload_.scheduler.max_sequences) Fail("too many running");
    std::set<const Sequence*> seen;
    for (const engine::SequenceStep& step : plan.sequences) {
      const Sequence* sequence = find_(step.request_id);
      if (!seen.insert(sequence).second) Fail("a sequence stands twice in a plan");
      if (sequence->request.deadline <= now_) Fail("a step is planned after the deadline");
      if (sequence->state != SequenceState::kRunning) Fail("what does not run is planned");
    }
    if (scheduler_.running().empty()) return;
    const Sequence* oldest = scheduler_.running().first();
    const bool stands_still = progress_.StandsStill(*oldest, runtime_.depth());
    if (stands_still && !PagesMayCome()) Fail("the oldest sequence stands still");
    if (!plan.empty() && seen.count(oldest) > 0 && plan.sub_batches.front().profile != oldest->request.profile) {
      Fail("the oldest sequence's profile is not first");
    }
  }

  void Check() {
    if (const absl::Status status = scheduler_.CheckIntegrity(); !status.ok()) Fail(status.ToString());
    if (runtime_.violations() > 0) Fail(runtime_.first_violation());
    for (const Live& live : live_) {
      const bool ended = live.sequence->state >= SequenceState::kRetiring;
      if (live.sink->num_finishes() != (ended ? 1 : 0)) Fail("not exactly one end");
      if (live.sequence->state == SequenceState::kFinished && !live.sequence->pages.empty()) Fail("ended with pages");
    }
  }

  std::string Finish() {
    if (scheduler_.num_pages_used() != 0) Fail("pages are left over");
    for (const Live& live : live_) CheckEnd(live);
    const auto preemptions = static_cast<int64_t>(scheduler_.counters().preemptions);
    const auto hits = static_cast<int64_t>(scheduler_.counters().prefix_hits);
    Count(Event::kRuns, 1);
    Count(Event::kRequests, static_cast<int64_t>(live_.size()));
    Count(Event::kPreemptions, preemptions);
    Count(Event::kPrefixHits, hits);
    const auto accepted = static_cast<int64_t>(scheduler_.counters().accepted_tokens);
    Count(Event::kAccepted, accepted);
    Count(Event::kRejected, static_cast<int64_t>(scheduler_.counters().draft_tokens) - accepted);
    if (workload_.runtime.num_state_slots > 0) {
      Count(Event::kRecurrentPreemptions, preemptions);
      Count(Event::kRecurrentPrefixHits, hits);
      Count(Event::kRecurrentAccepted, accepted);
    }
    if (groups().num_sliding > 0) {
      Count(Event::kSlidingPreemptions, preemptions);
      Count(Event::kSlidingPrefixHits, hits);
    }
    return problem_;
  }

  void CheckEnd(const Live& live) {
    const engine::FinishInfo& info = live.sink->info;
    ++stats_->ended_by[static_cast<size_t>(info.reason)];
    ++stats_->of_profile[engine::ProfileIndex(live.planned->request.profile)];
    const bool cancelled = info.reason == FinishReason::kCancelled;
    std::string problem =
        CheckAnswer({&live.planned->request, live.sink.get(), live.planned->sink_room, cancelled}, workload_.model());
    if (cancelled && live.planned->cancel_at > info.finished) problem = "cancelled early";
    if (info.reason == FinishReason::kPoolTooSmall && !MayOutgrow(workload_, live.planned->request)) {
      problem = "the pool has the pages that it needs";
    }
    if (!problem.empty()) Fail("request " + std::to_string(live.planned->index) + ": " + problem);
  }

  Dice dice_;
  Workload workload_;
  Scheduler scheduler_;
  FakeRuntime runtime_;
  std::vector<std::string>* trace_;
  SimulationStats* stats_;
  TimeNs now_ = 1;
  size_t next_arrival_ = 0;
  std::vector<Live> live_;  // by id - 1
  const FindSequence find_ = [this](engine::RequestId id) { return live_[id - 1].sequence.get(); };
  std::deque<InFlight> in_flight_;
  ProgressCheck progress_;
  bool awaits_pages_ = false;                  // nothing is in flight, and no sequence has pages
  std::map<const Sequence*, int64_t> passed_;  // tokens started before it while it was the oldest that waited
  std::string problem_;
};

}  // namespace

std::string RunSimulation(uint64_t seed, const RunOptions& options, SimulationStats* stats) {
  return Simulation(Dice(seed), options, stats).Run();
}

std::string RunSimulation(std::span<const uint8_t> draws, SimulationStats* stats) {
  return Simulation(Dice(draws), {.max_requests = kMaxDrawnRequests}, stats).Run();
}

}  // namespace dunlin::simulation
