// SPDX-License-Identifier: Apache-2.0
// What a draft model is asked to guess. Its guesses cost its own passes, one for each place, which all sequences of a
// call share: so fewer of them pay than of those that are looked up, and a sequence whose look-up is right about as
// often is left to it. A sequence whose guesses do not pay rests, each time for longer, until it is tried again.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

constexpr double kLookUpIsFree = 0.1;  // by which a look-up may be right less often than the model
// Of a step with one sequence, before passes have been timed: the models' sizes are 10 to 30 apart.
constexpr double kPassOfStep = 0.1;
constexpr int32_t kFirstRest = 64;  // tokens
constexpr int32_t kLongestRest = 1024;
constexpr double kPaysWell = 0.5;  // acceptance from which on the next rest is the first one again
// Prompt tokens that the model computes for each token that is left to guess. At 10 to 30 times less work a token than
// the large model's, whose prompt rows are 10 to 30 times cheaper than its steps, that is about what guesses give back.
constexpr int32_t kCatchUpPerToken = 32;

}  // namespace

void Scheduler::StartModelDrafts(SequenceDrafts* drafts) const {
  drafts->model.on = options_.max_batch_drafts > 0 && drafts->drafter != nullptr;
  drafts->model.acceptance = model_acceptance_;
  drafts->model.rest_tokens = kFirstRest;
}

// Of sequences that can draw in the next plan: nothing of theirs is in flight.
std::span<const DraftDemand> Scheduler::WantedDrafts() {
  demands_.clear();
  if (options_.max_batch_drafts == 0) return demands_;
  DraftStep step;
  double num_asked = 0.0;
  for (Sequence* sequence : running_) {
    if (!sequence->decodes()) continue;
    sequence->drafts.model.guessed = false;
    ++step.plain_rows;
    step.outputs += 1.0;
    if (sequence->drafts.model.on) num_asked += 1.0;
  }
  if (num_asked == 0.0 || step.plain_rows > options_.max_batch_drafts) return demands_;
  step.rows = step.plain_rows;
  step.per_guess = TimePerGuess(num_asked, step.rows);
  for (Sequence* sequence : running_) {
    SequenceDrafts& drafts = sequence->drafts;
    if (!sequence->decodes() || !drafts.model.on) continue;
    int32_t count = NumModelDrafts(sequence, &step);
    if (count > 0 && options_.drafts_write_pages) {
      count = ReserveDraftPages(sequence, sequence->num_tokens() - 1, count);
    }
    if (count == 0) continue;
    drafts.model.guessed = true;
    drafts.model.num_shown = sequence->num_tokens();
    drafts.model.looked_up = drafts.guesses.empty() ? kNoToken : drafts.guesses.front();
    drafts.guesses.clear();
    demands_.push_back({.sequence_id = sequence->id,
                        .tokens = sequence->tokens,
                        .profile = sequence->request.profile,
                        .max_drafts = count,
                        .pages = sequence->pages,
                        .guesses = &drafts.guesses});
  }
  return demands_;
}

// Looks up first. 0: the model is not asked.
int32_t Scheduler::NumModelDrafts(Sequence* sequence, DraftStep* step) const {
  SequenceDrafts& drafts = sequence->drafts;
  ModelDrafts& model = drafts.model;
  const int32_t num_tokens = sequence->num_tokens();
  const int32_t left = std::min(drafts.max, sequence->max_kv_tokens() - num_tokens);
  drafts.guesses.clear();
  if (left <= 0) return 0;
  drafts.drafter->Draft(sequence->tokens, left, &drafts.guesses);
  if (!drafts.guesses.empty() && drafts.acceptance + kLookUpIsFree >= model.acceptance) return 0;
  if (num_tokens < model.rest_until) return 0;
  const int64_t most_new = int64_t{kCatchUpPerToken} * (sequence->max_kv_tokens() - num_tokens);
  if (!options_.drafts_write_pages && num_tokens - model.num_shown > most_new) return 0;
  if (options_.adapt_drafts && !draft_choice_.KnowsPlain(step->plain_rows)) return 0;
  const DraftChoice::Choice choice = ChooseDrafts(*step, model.acceptance, left);
  if (choice.count > 0) {
    DraftChoice::Add(choice, model.acceptance, step);
    if (model.acceptance >= kPaysWell) model.rest_tokens = kFirstRest;
    return choice.count;
  }
  model.rest_until = num_tokens + model.rest_tokens;
  model.rest_tokens = std::min(2 * model.rest_tokens, kLongestRest);
  model.acceptance = std::max(model.acceptance, model_acceptance_);
  return 0;
}

double Scheduler::TimePerGuess(double num_sequences, int32_t rows) const {
  const bool timed = drafting_learned_ == kDraftCallsToTrust;
  const double pass = timed ? drafting_cost_.weight(1) : kPassOfStep * draft_choice_.StepTime(rows);
  return (timed ? drafting_cost_.weight(0) : 0.0) + pass / num_sequences;
}

void Scheduler::LearnDrafting(const DraftWork& work, TimeNs elapsed) {
  if (work.rounds == 0 || elapsed <= 0) return;
  const auto time = static_cast<double>(elapsed);
  drafting_cost_.Learn({static_cast<double>(work.rows), static_cast<double>(work.rounds)}, time, time);
  drafting_learned_ = std::min(drafting_learned_ + 1, kDraftCallsToTrust);
}

}  // namespace dunlin::engine
