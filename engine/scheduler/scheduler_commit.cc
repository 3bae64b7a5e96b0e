// SPDX-License-Identifier: Apache-2.0
// Committing a result: tokens, scores and ends go to the sinks, full pages to the prefix cache.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/sampling/banned_tokens.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

void Scheduler::Commit(const StepPlan& plan, const StepResult& result, TimeNs now) {
  DUNLIN_CHECK(result.outputs.size() == plan.sequences.size(), "a result has an output for every sequence of the plan");
  LearnCost(plan, now);
  advanced_.clear();
  committed_.clear();
  size_t next_score = 0;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const SequenceStep& step = plan.sequences[i];
    Sequence* sequence = SequenceOf(step);
    sequence->num_in_flight -= step.num_known();
    sequence->num_computed += step.num_known();
    // An expired deadline takes precedence: such a request never ends as a complete one.
    if (sequence->state == SequenceState::kRunning && sequence->request.deadline <= now) {
      PublishComputed(sequence, step.samples, result.outputs[i]);
      Finish(sequence, FinishReason::kDeadline, now);
    } else if (sequence->state == SequenceState::kRunning) {
      DeliverScores(sequence, static_cast<int32_t>(i), result, &next_score);
      CommitDraws(sequence, plan, i, result, now);
      if (sequence->state != SequenceState::kRunning) continue;
      if (step.samples) pages_.DropDrafts(sequence);  // else they are of a step that is still in flight
      pages_.KeepAtEnd(sequence);
      pages_.FreeBehindWindow(sequence);
      committed_.push_back(sequence->sink.get());
    } else if (sequence->state == SequenceState::kRetiring) {
      sequence->num_computed = std::min(sequence->num_computed, sequence->num_tokens());  // not what it drew in vain
      PublishComputed(sequence, step.samples, result.outputs[i]);
      if (sequence->num_in_flight == 0) Retire(sequence);
    }
  }
  for (OutputSink* sink : committed_) sink->OnStepEnd();
}

// A step began when it was planned or, if one before it was in flight then, when that one ended.
void Scheduler::LearnCost(const StepPlan& plan, TimeNs now) {
  const TimeNs began = std::max(plan.planned, last_commit_);
  last_commit_ = now;
  if (now <= began) return;
  const StepCost::Load load = StepCost::LoadOf(plan);
  const auto num_drafts = static_cast<double>(plan.draft_rows.size());
  if (options_.step_time_target > 0) cost_.Learn(load, now - began);
  const bool decodes = std::all_of(plan.sequences.begin(), plan.sequences.end(),
                                   [](const SequenceStep& step) { return step.first_position >= step.prompt_len; });
  if (decodes) draft_choice_.Learn(plan.num_tokens, now - began);
  forecast_.LearnStep({.sequences = static_cast<int32_t>(plan.sequences.size()),
                       .prompt_tokens = static_cast<int32_t>(load.prompt_tokens),
                       .outputs = static_cast<int32_t>(load.decodes - num_drafts)},
                      now - began, now);
}

void Scheduler::CommitDraw(Sequence* sequence, const StepPlan& plan, const SequenceStep& step, size_t draw,
                           const StepOutput& output, TimeNs now) {
  if (output.numerical_error && step.constraint >= 0 && plan.AllowsNothing(step, static_cast<int32_t>(draw))) {
    // That nothing could be drawn says nothing about the logits, so its pages are neither proven nor distrusted.
    PublishComputed(sequence, false, {});
    return FinishWithoutToken(sequence, now);
  }
  PublishComputed(sequence, step.samples, output);
  if (output.numerical_error && sequence->on_trial) {
    // The fault may lie in pages that others computed: it is computed again, with pages that are known to be sound.
    sequence->proven_only = true;
    return Preempt(sequence);
  }
  if (output.numerical_error) return Finish(sequence, FinishReason::kNumerical, now);
  if (!step.samples) return;
  DUNLIN_CHECK(output.sampled, "the last known token of a sequence gives the next one");
  sequence->num_forced = 0;
  Append(sequence, output.token, now);
  if (sequence->constrained != nullptr) AdvanceConstraint(sequence, now);
}

// Appends what the constraint forces. Every step of a draw is taken for such a token but the draw itself, which could
// give no other.
void Scheduler::AdvanceConstraint(Sequence* sequence, TimeNs now) {
  ConstrainedOutput& output = *sequence->constrained;
  while (sequence->state == SequenceState::kRunning) {
    output.Take(sequence->tokens.back());
    if (!output.is_computed()) return advanced_.push_back(sequence->constrained);
    const std::optional<TokenId> forced = output.forced();
    if (!forced.has_value()) return;
    if (!Permits(*sequence, *forced)) return FinishWithoutToken(sequence, now);
    TokenOutput token;
    token.token_id = *forced;
    ++sequence->num_forced;
    Append(sequence, token, now);
  }
}

bool Scheduler::Permits(const Sequence& sequence, TokenId token) {
  const SamplingParams& sampling = sequence.request.sampling;
  const auto holds = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  banned_.clear();
  AppendBanned(sequence.tokens, sequence.prompt_len, sampling, sequence.request.stopping, options_.eos_token_ids,
               &banned_);
  return !holds(banned_) && (sampling.allowed_token_ids.empty() || holds(sampling.allowed_token_ids));
}

// Nothing may follow: the output is complete, or it can never be.
void Scheduler::FinishWithoutToken(Sequence* sequence, TimeNs now) {
  Finish(sequence, sequence->constrained->is_accepting() ? FinishReason::kStop : FinishReason::kConstraint, now);
}

// A row of logits depends on every key and value before it, so only a finite one shows that the pages are sound. Until
// then they are in the cache unproven.
void Scheduler::PublishComputed(Sequence* sequence, bool samples, const StepOutput& output) {
  if (output.numerical_error) return pages_.Distrust(sequence);
  const int32_t computed = sequence->num_computed;
  pages_.Publish(sequence, options_.prefill_matches_decode ? computed : std::min(computed, sequence->prompt_len),
                 samples);
}

void Scheduler::DeliverScores(Sequence* sequence, int32_t index, const StepResult& result, size_t* next_score) {
  for (; *next_score < result.prompt_scores.size(); ++*next_score) {
    const PromptScore& score = result.prompt_scores[*next_score];
    if (score.sequence_index > index) return;
    if (score.sequence_index < index) continue;  // of a sequence that has ended
    sequence->next_scored_position = score.position + 1;
    sequence->sink->OnPromptToken(score.position, score.token);
  }
}

void Scheduler::Append(Sequence* sequence, const TokenOutput& token, TimeNs now) {
  sequence->tokens.push_back(token.token_id);
  sequence->counts.AddOutput(token.token_id);
  if (sequence->num_output() == 1) sequence->info.first_token = now;
  ++counters_.generation_tokens;
  if (!sequence->sink->OnToken(token)) return Finish(sequence, FinishReason::kSlowReader, now);
  if (IsStopToken(*sequence, token.token_id)) {
    sequence->info.stop_token_id = token.token_id;
    return Finish(sequence, FinishReason::kStop, now);
  }
  if (sequence->num_output() == sequence->request.stopping.max_tokens) Finish(sequence, FinishReason::kLength, now);
}

bool Scheduler::IsStopToken(const Sequence& sequence, TokenId token) const {
  const StoppingParams& stopping = sequence.request.stopping;
  if (sequence.num_output() <= stopping.min_tokens) return false;
  const auto holds = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return (!stopping.ignore_eos && holds(options_.eos_token_ids)) || holds(stopping.stop_token_ids);
}

}  // namespace dunlin::engine
