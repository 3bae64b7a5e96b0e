// SPDX-License-Identifier: Apache-2.0
#include "tools/load/recorder.h"

#include <algorithm>

namespace dunlin::tools::load {
namespace {

constexpr size_t kMaxReasons = 32;  // the server chooses them, so they are bounded; the rest counts as "other"

void Count(const Outcome& outcome, bool good, Totals* totals) {
  switch (outcome.ending) {
    case Ending::kRefused:
      ++totals->refused;
      totals->refused_without_retry_info += outcome.retry_info ? 0 : 1;
      totals->refusal.Add(outcome.ended - outcome.sent);
      return;
    case Ending::kFailed:
      ++totals->failed;
      return;
    case Ending::kDeadline:
      ++totals->deadline;
      return;
    case Ending::kCancelled:
      ++totals->cancelled;
      return;
    case Ending::kUnfinished:
      ++totals->unfinished;
      return;
    case Ending::kCompleted:
      break;
  }
  ++totals->completed;
  totals->good += good ? 1 : 0;
  totals->input_tokens += outcome.prompt_tokens;
  totals->output_tokens += outcome.output_tokens;
  totals->token_messages += outcome.token_messages;
  if (outcome.first_token != 0) totals->ttft.Add(outcome.ttft_ns());
  totals->e2el.Add(outcome.e2el_ns());
  if (outcome.output_tokens >= 2) {
    totals->tpot.Add(static_cast<TimeNs>(outcome.tpot_ms() * static_cast<double>(kNsPerMs)));
  }
  if (outcome.engine_ms >= 0) {
    const double beyond_ms = ToMs(outcome.ended - outcome.sent) - outcome.engine_ms;
    totals->beyond_engine.Add(static_cast<TimeNs>(beyond_ms * static_cast<double>(kNsPerMs)));
  }
}

}  // namespace

void Totals::Add(const Totals& other) {
  sent += other.sent;
  completed += other.completed;
  refused += other.refused;
  refused_without_retry_info += other.refused_without_retry_info;
  failed += other.failed;
  deadline += other.deadline;
  cancelled += other.cancelled;
  unfinished += other.unfinished;
  good += other.good;
  input_tokens += other.input_tokens;
  output_tokens += other.output_tokens;
  token_messages += other.token_messages;
  ttft.Merge(other.ttft);
  tpot.Merge(other.tpot);
  itl.Merge(other.itl);
  e2el.Merge(other.e2el);
  refusal.Merge(other.refusal);
  beyond_engine.Merge(other.beyond_engine);
}

Totals Recording::Sum() const {
  Totals sum;
  for (const Totals& group : groups) sum.Add(group);
  return sum;
}

Recorder::Recorder(size_t num_groups, const Slo& slo, TimeNs started) : slo_(slo) {
  recording_.started = recording_.last_ended = started;
  recording_.groups.resize(num_groups);
}

void Recorder::OnSent(size_t group, TimeNs intended, TimeNs sent) {
  absl::MutexLock lock(&mutex_);
  ++recording_.groups[group].sent;
  recording_.send_delay.Add(sent - intended);
  ++in_flight_;
  recording_.in_flight_max = std::max(recording_.in_flight_max, in_flight_);
  Timeline::Slot& slot = recording_.timeline.At(sent - recording_.started);
  ++slot.sent;
  slot.in_flight_max = std::max(slot.in_flight_max, in_flight_);
}

void Recorder::OnTokens(size_t group, int32_t num_tokens, TimeNs gap_ns, TimeNs now) {
  absl::MutexLock lock(&mutex_);
  if (gap_ns >= 0) recording_.groups[group].itl.Add(gap_ns);
  recording_.tokens += num_tokens;
  recording_.timeline.At(now - recording_.started).tokens += num_tokens;
}

void Recorder::OnEnd(const Outcome& outcome) {
  absl::MutexLock lock(&mutex_);
  --in_flight_;
  recording_.last_ended = std::max(recording_.last_ended, outcome.ended);
  Count(outcome, slo_.Met(outcome), &recording_.groups[outcome.group]);
  Timeline::Slot& slot = recording_.timeline.At(outcome.ended - recording_.started);
  slot.in_flight_max = std::max(slot.in_flight_max, in_flight_);
  slot.completed += outcome.ending == Ending::kCompleted ? 1 : 0;
  slot.refused += outcome.ending == Ending::kRefused ? 1 : 0;
  slot.failed += outcome.ending == Ending::kFailed || outcome.ending == Ending::kDeadline ? 1 : 0;
  if (outcome.ending == Ending::kCompleted && outcome.first_token != 0) {
    Timeline::Slot& first = recording_.timeline.At(outcome.first_token - recording_.started);
    ++first.first_tokens;
    first.ttft_ms_sum += ToMs(outcome.ttft_ns());
  }
  if (outcome.ending != Ending::kRefused && outcome.ending != Ending::kFailed) return;
  const bool known = recording_.reasons.count(outcome.reason) > 0 || recording_.reasons.size() < kMaxReasons;
  ReasonTotals& reason = recording_.reasons[known ? outcome.reason : "other"];
  if (reason.count++ == 0) reason.example = outcome.message;
  reason.with_retry_info += outcome.retry_info ? 1 : 0;
  reason.latency.Add(outcome.ended - outcome.sent);
}

Recording Recorder::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  return recording_;
}

Recorder::Live Recorder::live() const {
  absl::MutexLock lock(&mutex_);
  Live live;
  live.in_flight = in_flight_;
  live.tokens = recording_.tokens;
  DurationHistogram ttft;
  for (const Totals& group : recording_.groups) {
    live.completed += group.completed;
    live.refused += group.refused;
    live.failed += group.failed;
    live.deadline += group.deadline;
    ttft.Merge(group.ttft);
  }
  live.ttft_p50_ms = ttft.PercentileMs(0.5);
  return live;
}

}  // namespace dunlin::tools::load
