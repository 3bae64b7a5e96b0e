// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/answer_check.h"

namespace dunlin::simulation {
namespace {

using engine::FinishReason;
using engine::RequestId;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceList;
using engine::StepPlan;

constexpr int64_t kMaxLaunches = 20000;  // of an engine, some hundreds in a run; more is a livelock

std::string CheckBounds(const FakeEngine& engine, const Workload& workload, const StepPlan& plan) {
  const Scheduler& scheduler = engine.scheduler();
  if (engine.runtime().num_launched() > kMaxLaunches) return "no end: a livelock";
  if (plan.num_tokens > workload.scheduler.max_tokens_per_step) return "a plan over the token budget";
  if (static_cast<int32_t>(scheduler.running().size()) > workload.scheduler.max_sequences) return "too many running";
  if (engine.ignores_pause()) return "a paused engine computes";
  int32_t queued = 0;
  int64_t tokens = 0;
  for (const Sequence* sequence : scheduler.waiting()) {
    if (sequence->info.preemptions > 0) continue;
    ++queued;
    tokens += sequence->prompt_len;
  }
  if (queued > engine.limits().max_queued_requests) return "more requests wait than max_queued_requests";
  if (tokens > engine.limits().max_queued_tokens) return "more tokens wait than max_queued_tokens";
  return "";
}

// What is past its deadline, or whose end was requested two steps ago, is no longer there.
std::string CheckEnded(const FakeEngine& engine, const StepPlan& plan, const std::vector<Call*>& open) {
  for (const SequenceList* list : {&engine.scheduler().waiting(), &engine.scheduler().running()}) {
    for (const Sequence* sequence : *list) {
      if (sequence->request.deadline <= plan.planned) return "a request outlives its deadline";
    }
  }
  for (const Call* call : open) {
    if (call->state != Call::State::kSubmitted || call->engine != &engine || call->launches == 0) continue;
    if (call->sink->num_finishes() > 0) continue;
    if (engine.runtime().num_launched() > call->launches + 2) return "an end takes more than a step";
  }
  return "";
}

}  // namespace

std::string CheckLaunch(const FakeEngine& engine, const Workload& workload, const StepPlan& plan,
                        const std::vector<Call*>& open, ProgressCheck* progress) {
  if (std::string problem = CheckBounds(engine, workload, plan); !problem.empty()) return problem;
  const Scheduler& scheduler = engine.scheduler();
  if (const absl::Status status = scheduler.CheckIntegrity(); !status.ok()) return status.ToString();
  if (engine.runtime().violations() > 0) return engine.runtime().first_violation();
  const SequenceList& running = scheduler.running();
  const FindSequence find = [&running](RequestId id) {
    return *std::find_if(running.begin(), running.end(), [id](const Sequence* s) { return s->id == id; });
  };
  if (std::string problem = CheckNewPlan(plan, find, workload.runtime.kv_groups); !problem.empty()) return problem;
  if (std::string problem = CheckSalts(running); !problem.empty()) return problem;
  const bool pages_may_come = scheduler.pool_grows() && scheduler.num_usable_pages() - scheduler.num_pages_used() <
                                                            workload.runtime.kv_groups.count();
  if (!running.empty() && progress->StandsStill(*running.first(), workload.runtime.depth) && !pages_may_come) {
    return "the oldest sequence stands still";
  }
  return CheckEnded(engine, plan, open);
}

std::string CheckStopped(const FakeEngine& stopped, const std::deque<Call>& calls, bool device_failed) {
  engine::EngineStats counters;
  stopped.counters().Fill(&counters);
  const Scheduler& scheduler = stopped.scheduler();
  const FakeRankOptions& ranks = stopped.runtime().ranks();
  if (ranks.fail_at >= 0 && stopped.runtime().num_launched() > ranks.fail_at) return "a failed rank is not noticed";
  if (stopped.num_live() != 0) return "a request was never ended";
  if (stopped.mailbox().live() != 0) return "the mailbox keeps requests";
  if (!scheduler.empty()) return "the scheduler keeps sequences";
  if (scheduler.num_pages_used() != 0 || counters.pages_used != 0) return "pages are left over";
  if (counters.running != 0) return "an engine that has stopped counts running requests";
  if (counters.failed != device_failed) return "a failed device is not reported, or one that works";
  if (const absl::Status status = scheduler.CheckIntegrity(); !status.ok()) return status.ToString();
  uint64_t submitted = 0;
  uint64_t tokens = 0;
  for (const Call& call : calls) {
    if (call.engine != &stopped || call.id == 0) continue;
    ++submitted;
    tokens += call.planned->request.prompt.size();
  }
  if (scheduler.counters().dequeued_requests != submitted) return "requests that left the queue are miscounted";
  if (scheduler.counters().dequeued_tokens != tokens) return "tokens that left the queue are miscounted";
  return "";
}

std::string CheckRankReason(const FakeRankOptions& ranks, const absl::Status& reason) {
  if (ranks.fail_at < 0) return "";
  const std::string expected = absl::StrCat("rank ", ranks.odd_rank, " of ", ranks.num_ranks, ": failed, as asked");
  return reason.message() == expected ? "" : absl::StrCat("the engine ended with '", reason.ToString(), "'");
}

std::string CheckEnd(const Call& call, const OutsideEnds& ends, const Workload& workload) {
  if (call.sink->num_finishes() != 1) return "not exactly one end";
  const engine::Request& request = call.planned->request;
  const FinishReason reason = call.sink->info.reason;
  if (reason == FinishReason::kCancelled && !call.cancelled && !ends.aborted) return "nobody cancelled it";
  if (reason == FinishReason::kShutdown && !ends.stopped) return "ended by a stop that did not come";
  if (reason == FinishReason::kInternal && !ends.device_failed) return "ended by a device that works";
  if (reason == FinishReason::kPoolTooSmall && !MayOutgrow(workload, request)) {
    return "the pool has the pages that it needs";
  }
  const bool from_outside = reason == FinishReason::kCancelled || reason == FinishReason::kShutdown ||
                            reason == FinishReason::kInternal || (reason == FinishReason::kStop && call.stopped);
  ReferenceModel model = workload.model();
  model.version = call.engine->version();
  return CheckAnswer({&request, call.sink.get(), call.planned->sink_room, from_outside}, model);
}

}  // namespace dunlin::simulation
