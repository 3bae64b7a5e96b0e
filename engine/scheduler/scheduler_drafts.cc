// SPDX-License-Identifier: Apache-2.0
// Speculation: guesses at the next tokens of sequences that decode are computed in the same step as the known one, as
// rows behind it. A draw counts while every draft before it was drawn, so that a sequence has the tokens that it would
// have without. Pages are published up to the tokens that count; what rejected drafts left in a page is written again.
//
// A draft pays where it is likely enough to be drawn for what its row costs: at the chance p it adds p outputs, and the
// row's time m, to a step of time T with N outputs. So it is planned while p T > kMargin m N. With many sequences the
// rows' own cost is most of T, so that drafts end by themselves. T and m are learned (step_cost.h).
//
// Under a constraint the masks behind the drafts are computed while the layers are, up to the first draft that it
// forbids: a row behind that one is lost. Tokens that are forced behind a draw count against the drafts as draws do.
#include <algorithm>
#include <span>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

constexpr double kMargin = 1.2;            // errors of the estimates must not cost what plain decode would have given
constexpr double kGuessWeight = 0.1;       // of the last guess in the estimate of how often they are right
constexpr double kAverageWeight = 0.01;    // the same of all sequences together
constexpr int32_t kPlansToTryAgain = 200;  // that leave drafts out, before a row's cost is taken for unknown again

}  // namespace

bool Scheduler::knows_cost() const {
  return drafts_learned_ == kDraftStepsToTrust && drafts_declined_ < kPlansToTryAgain;
}

// Nanoseconds or, while they are not known, rows.
double Scheduler::StepTime(const StepCost::Load& load) const {
  return knows_cost() ? cost_.Predict(load) : load.decodes + options_.step_overhead_tokens;
}

// Oldest first, after all known tokens have pages: drafts take nothing from other sequences. In a step that is for
// another tenant's prompts those of tenants that are behind have none.
void Scheduler::PlanDrafts() {
  DraftLoad load;
  int32_t room = options_.max_tokens_per_step;
  for (const Sequence* sequence : running_) {
    room -= sequence->num_planned;
    if (sequence->num_planned != 1 || sequence->prefills()) continue;
    load.load.AddDecode(sequence->next_position());
    load.outputs += 1.0;
  }
  room = std::min(room, kMaxDraftRows);
  bool declined = false;
  for (Sequence* sequence : running_) {
    SequenceDrafts& drafts = sequence->drafts;
    if (drafts.drafter == nullptr || sequence->num_planned == 0) continue;
    Guess(sequence);
    if (others_served_ && sequence->tenant->is_behind) continue;
    const int32_t limit = std::min(room, static_cast<int32_t>(drafts.guesses.size()));
    const double acceptance = drafts.model.guessed ? drafts.model.acceptance : drafts.acceptance;
    const int32_t count = CountThatPays(sequence->num_tokens(), limit, acceptance, &load);
    declined |= count == 0 && limit > 0;
    drafts.num_planned = ReserveDrafts(sequence, count);
    if (sequence->constrained != nullptr) ConstrainDrafts(sequence);
    room -= count;
  }
  drafts_declined_ = declined ? drafts_declined_ + 1 : 0;
}

int32_t Scheduler::CountThatPays(int32_t first, int32_t limit, double acceptance, DraftLoad* load) const {
  double expected = 1.0;
  for (int32_t count = 0; count < limit; ++count) {
    expected *= acceptance;
    if (!Pays(*load, first + count, expected)) return count;
    load->load.AddDecode(first + count);
    load->outputs += expected;
    load->drafting += load->per_guess;
  }
  return limit;
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

// Whether a draft at `position` that is drawn with the chance `expected` pays in a step of this load.
bool Scheduler::Pays(const DraftLoad& load, int32_t position, double expected) const {
  if (!options_.adapt_drafts) return true;
  const double row = (knows_cost() ? cost_.PredictDecode(position) : 1.0) + load.per_guess;
  return expected * (StepTime(load.load) + load.drafting) > kMargin * row * load.outputs;
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
  ModelDrafts& model = drafts->model;
  if (draw < drafts->guesses.size()) {
    learn(drafts->guesses[draw], kGuessWeight, model.guessed ? &model.acceptance : &drafts->acceptance);
    if (model.guessed) learn(drafts->guesses[draw], kAverageWeight, &model_acceptance_);
  }
  if (draw == 0 && model.guessed && model.looked_up != kNoToken) {
    learn(model.looked_up, kGuessWeight, &drafts->acceptance);
  }
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
