// SPDX-License-Identifier: Apache-2.0
// Speculation: guesses at the next tokens of sequences that decode are computed in the same step as the known one, as
// rows behind it. A draw counts while every draft before it was drawn, so that a sequence has the tokens that it would
// have without. Pages are published up to the tokens that count; what rejected drafts left in a page is written again.
//
// How many of them pay is a DraftChoice's to say (draft_choice.h), by how often the sequence's were right and by the
// times of the steps so far.
//
// Under a constraint the masks behind the drafts are computed while the layers are, up to the first draft that it
// forbids: a row behind that one is lost. Tokens that are forced behind a draw count against the drafts as draws do.
#include <algorithm>
#include <span>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

constexpr double kGuessWeight = 0.1;     // of the last guess in the estimate of how often they are right
constexpr int32_t kFirstGuesses = 7;     // of a look-up: so long it is their mean, with one right and one wrong
constexpr double kAverageWeight = 0.01;  // the same of all sequences together

}  // namespace

// Oldest first, after all known tokens have pages: drafts take nothing from other sequences. In a step that is for
// another tenant's prompts those of tenants that are behind have none.
void Scheduler::PlanDrafts() {
  DraftStep step;
  int32_t room = options_.max_tokens_per_step;
  for (const Sequence* sequence : running_) {
    room -= sequence->num_planned;
    if (sequence->num_planned == 0 || sequence->prefills()) continue;
    step.plain_rows += sequence->num_planned;
    step.outputs += 1.0;
  }
  step.rows = step.plain_rows;
  room = std::min(room, kMaxDraftRows);
  for (Sequence* sequence : running_) {
    SequenceDrafts& drafts = sequence->drafts;
    if (drafts.drafter == nullptr || sequence->num_planned == 0) continue;
    Guess(sequence);
    if (others_served_ && sequence->tenant->is_behind) continue;
    const int32_t limit = std::min(room, static_cast<int32_t>(drafts.guesses.size()));
    const double acceptance = drafts.model.guessed ? drafts.model.acceptance : drafts.acceptance;
    DraftChoice::Choice choice = ChooseDrafts(step, acceptance, limit);
    drafts.num_planned = choice.count = ReserveDrafts(sequence, choice.count);
    if (choice.count > 0) draft_choice_.Pay(choice);
    if (sequence->constrained != nullptr) ConstrainDrafts(sequence);
    DraftChoice::Add(choice, acceptance, &step);
    room -= choice.count;
  }
}

DraftChoice::Choice Scheduler::ChooseDrafts(const DraftStep& step, double acceptance, int32_t limit) const {
  if (!options_.adapt_drafts) return {.count = limit};
  return draft_choice_.Choose(step, acceptance, limit);
}

// Guesses for a sequence whose next draw is planned: those that a draft model has just made, or its own drafter's. The
// last token that it may have is never computed.
void Scheduler::Guess(Sequence* sequence) const {
  SequenceDrafts& drafts = sequence->drafts;
  const bool draws = sequence->decodes() && sequence->num_planned == sequence->num_uncomputed();
  if (draws && drafts.model.guessed && !drafts.guesses.empty()) return;
  drafts.model.guessed = false;
  drafts.guesses.clear();
  const int32_t left = sequence->max_kv_tokens() - sequence->num_tokens();
  if (draws && left > 0) drafts.drafter->Draft(sequence->tokens, std::min(drafts.max, left), &drafts.guesses);
}

// Pages for drafts are free ones of which enough are left for every running sequence to go on.
int32_t Scheduler::ReserveDraftPages(Sequence* sequence, int32_t first, int32_t wanted) {
  const int64_t left = int64_t{pages_.groups().count()} * static_cast<int64_t>(running_.size() + 1);
  int32_t covered = pages_.NumPageSets(*sequence) * sequence->tokens_per_page;
  while (covered < first + wanted && pages_.pool().num_free() > left) covered = pages_.Reserve(sequence, covered + 1);
  return std::clamp(covered - first, 0, wanted);
}

int32_t Scheduler::ReserveDrafts(Sequence* sequence, int32_t wanted) {
  if (wanted == 0) return 0;
  const int32_t known = sequence->next_position() + sequence->num_planned;
  return pages_.ReserveDrafts(sequence, ReserveDraftPages(sequence, known, wanted), StatesToLeave());
}

// Slots that drafts leave: one for every sequence that may begin beside this step, one that is kept, and some of those
// with states that the prefix cache knows.
int32_t Scheduler::StatesToLeave() const {
  const auto waiting = static_cast<int32_t>(waiting_.by_age().size());
  const int32_t may_begin = std::min(waiting, options_.max_sequences - static_cast<int32_t>(running_.size()));
  return may_begin + 1 + num_states() / 8;
}

// A sequence ends with its end-of-sequence token, so that no draw behind it counts.
void Scheduler::ConstrainDrafts(Sequence* sequence) {
  if (sequence->drafts.num_planned == 0) return;
  const std::span<const TokenId> drafts =
      std::span(sequence->drafts.guesses).first(static_cast<size_t>(sequence->drafts.num_planned));
  const std::vector<TokenId>& ends = options_.eos_token_ids;
  const auto end = std::find_first_of(drafts.begin(), drafts.end(), ends.begin(), ends.end());
  sequence->constrained->Follow({drafts.begin(), end});
  advanced_.push_back(sequence->constrained);
}

// The drafts of a launched plan are those of its step: the sequence's own guesses are the same, because it is in no
// later plan before this one is committed.
void Scheduler::CommitDraws(Sequence* sequence, const StepPlan& plan, size_t index, const StepResult& result,
                            TimeNs now) {
  const SequenceStep& step = plan.sequences[index];
  const std::span<const TokenId> drafts = plan.DraftsOf(step);
  CountDrafts(sequence, drafts.size());
  for (size_t draw = 0;;) {
    const StepOutput& output = result.OutputOf(plan, index, draw);
    if (output.sampled) LearnGuess(output.token.token_id, draw, &sequence->drafts);
    const bool right = draw < drafts.size() && output.sampled && output.token.token_id == drafts[draw];
    if (right) CountAccepted(sequence, draw);
    CommitDraw(sequence, plan, step, draw, output, now);
    if (!right || sequence->state != SequenceState::kRunning) return;
    // The rows behind it were drawn with no mask, or with that of another place.
    if (sequence->constrained != nullptr && !sequence->constrained->is_computed()) return;
    pages_.AcceptDraft(sequence);  // its K and V are those of the drawn token
    ++draw;
    const std::span<const TokenId> forced = std::span(sequence->tokens).last(static_cast<size_t>(sequence->num_forced));
    for (const TokenId token : forced) {
      // No row behind them counts, so that they enter the cache unproven.
      if (draw == drafts.size() || token != drafts[draw]) return PublishComputed(sequence, false, {});
      CountAccepted(sequence, draw);
      pages_.AcceptDraft(sequence);
      ++draw;
    }
  }
}

void Scheduler::LearnGuess(TokenId drawn, size_t draw, SequenceDrafts* drafts) {
  const auto learn = [drawn](TokenId guess, double weight, double* acceptance) {
    *acceptance += weight * ((guess == drawn ? 1.0 : 0.0) - *acceptance);
  };
  const auto learn_look_up = [&learn, drafts](TokenId guess) {
    const bool few = drafts->num_learned < kFirstGuesses;
    learn(guess, few ? 1.0 / (drafts->num_learned + 3) : kGuessWeight, &drafts->acceptance);
    drafts->num_learned += few ? 1 : 0;
  };
  ModelDrafts& model = drafts->model;
  if (draw < drafts->guesses.size() && model.guessed) {
    learn(drafts->guesses[draw], kGuessWeight, &model.acceptance);
    learn(drafts->guesses[draw], kAverageWeight, &model_acceptance_);
  } else if (draw < drafts->guesses.size()) {
    learn_look_up(drafts->guesses[draw]);
  }
  if (draw == 0 && model.guessed && model.looked_up != kNoToken) learn_look_up(model.looked_up);
}

void Scheduler::CountDrafts(Sequence* sequence, size_t num_drafts) {
  if (num_drafts == 0) return;
  sequence->info.drafted_tokens += static_cast<int32_t>(num_drafts);
  ++counters_.drafts;
  counters_.draft_tokens += num_drafts;
}

void Scheduler::CountAccepted(Sequence* sequence, size_t draw) {
  ++sequence->info.accepted_tokens;
  ++counters_.accepted_tokens;
  ++counters_.accepted_at_position[draw];
}

}  // namespace dunlin::engine
