// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/fake_runtime.h"

#include <algorithm>

namespace dunlin::simulation {

using engine::SequenceStep;
using engine::StepPlan;
using engine::StepResult;

FakeRuntime::FakeRuntime(const FakeRuntimeOptions& options)
    : options_(options),
      ranks_(options.ranks),
      num_backed_(options.first_pages < 0 ? options.num_pages : options.first_pages),
      pool_ended_(options.first_pages < 0),
      slots_per_page_(*std::max_element(options.tokens_per_page.begin(), options.tokens_per_page.end())),
      slots_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(slots_per_page_)),
      states_(static_cast<size_t>(options.num_state_slots)),
      writers_(static_cast<size_t>(options.num_pages)),
      launched_(static_cast<size_t>(options.depth)) {
  early_result_.Reserve(1024, 16 * 1024);
  drawn_.reserve(1024);
}

void FakeRuntime::GrowPool(int32_t num_pages) {
  const int32_t last = options_.final_pages < 0 ? options_.num_pages : options_.final_pages;
  if (num_backed_ == last) {
    pool_ended_ = true;
  } else {
    num_backed_ = std::min(last, num_backed_ + num_pages);
  }
}

void FakeRuntime::Violate(const char* what, uint64_t sequence_id) {
  if (violations_++ == 0) first_violation_ = std::string(what) + ", sequence " + std::to_string(sequence_id);
}

absl::StatusOr<engine::StepHandle> FakeRuntime::Launch(const StepPlan& plan) {
  if (options_.on_launch) options_.on_launch(plan);
  if (num_launched_ == options_.fail_launch_at) return absl::InternalError("launch failed, as asked");
  if (absl::Status status = ranks_.Run(num_launched_); !status.ok()) return status;
  if (num_launched_ - num_collected_ >= options_.depth) Violate("more steps in flight than the depth", 0);
  CheckPlan(plan);
  launched_[static_cast<size_t>(num_launched_ % options_.depth)] = &plan;
  if (options_.depth == 1) {
    early_result_.Clear();
    Execute(plan, &early_result_);
  }
  return static_cast<engine::StepHandle>(num_launched_++);
}

absl::Status FakeRuntime::Collect(engine::StepHandle handle, StepResult* result) {
  if (num_collected_ == options_.fail_collect_at) return absl::InternalError("collect failed, as asked");
  if (handle != num_collected_) Violate("steps are collected out of order", 0);
  const StepPlan& plan = *launched_[static_cast<size_t>(num_collected_++ % options_.depth)];
  if (options_.depth > 1) {
    Execute(plan, result);
    return absl::OkStatus();
  }
  result->outputs.assign(early_result_.outputs.begin(), early_result_.outputs.end());
  result->draft_outputs.assign(early_result_.draft_outputs.begin(), early_result_.draft_outputs.end());
  result->prompt_scores.assign(early_result_.prompt_scores.begin(), early_result_.prompt_scores.end());
  return absl::OkStatus();
}

void FakeRuntime::CheckPlan(const StepPlan& plan) {
  int32_t next_sequence = 0;
  int32_t num_tokens = 0;
  for (const engine::SubBatch& batch : plan.sub_batches) {
    if (batch.first_sequence != next_sequence || batch.num_sequences < 1) Violate("sub-batches leave gaps", 0);
    const int32_t page_tokens = tokens_per_page(batch.profile.precision);
    int32_t batch_tokens = 0;
    for (int32_t i = 0; i < batch.num_sequences; ++i) {
      const SequenceStep& step = plan.sequences[static_cast<size_t>(next_sequence + i)];
      if (step.num_tokens < 1) Violate("a sequence without tokens", step.request_id);
      if (step.drawn_by >= 0) CheckDrawn(plan, step);
      if (step.pages.count / options_.kv_groups.count() * page_tokens < step.first_position + step.num_tokens) {
        Violate("tokens without pages", step.request_id);
      }
      batch_tokens += step.num_tokens;
    }
    if (batch_tokens != batch.num_tokens) Violate("a sub-batch miscounts tokens", 0);
    next_sequence += batch.num_sequences;
    num_tokens += batch_tokens;
  }
  if (next_sequence != static_cast<int32_t>(plan.sequences.size())) Violate("sequences without a sub-batch", 0);
  if (num_tokens != plan.num_tokens) Violate("the plan miscounts tokens", 0);
}

// The step before is in flight, and draws for the same sequence the token at the position of this one.
void FakeRuntime::CheckDrawn(const StepPlan& plan, const SequenceStep& step) {
  if (num_launched_ == num_collected_ || !takes_drawn_tokens())
    return Violate("a token that nobody draws", step.request_id);
  const StepPlan& before = *launched_[static_cast<size_t>((num_launched_ - 1) % options_.depth)];
  const auto index = static_cast<size_t>(step.drawn_by);
  if (&before == &plan || index >= before.sequences.size()) return Violate("a draw of no sequence", step.request_id);
  const SequenceStep& draws = before.sequences[index];
  const bool fits = draws.request_id == step.request_id && draws.samples && draws.num_drafts() == 0 &&
                    draws.first_position + draws.num_tokens == step.first_position && step.num_tokens == 1;
  if (!fits) Violate("a draw of another sequence", step.request_id);
  if (step.constraint >= 0 || step.num_drafts() > 0) Violate("masks or guesses of an unknown token", step.request_id);
}

engine::TokenId FakeRuntime::TokenAt(const StepPlan& plan, const SequenceStep& step, int32_t index) const {
  if (step.drawn_by >= 0) return drawn_[static_cast<size_t>(step.drawn_by)];
  return plan.TokensOf(step)[static_cast<size_t>(index)];
}

void FakeRuntime::Execute(const StepPlan& plan, StepResult* result) {
  plan.FinishGrammarMasks();
  result->draft_outputs.resize(plan.draft_rows.size());
  for (const engine::SubBatch& batch : plan.sub_batches) {
    for (int32_t i = 0; i < batch.num_sequences; ++i) ExecuteSequence(plan, batch, batch.first_sequence + i, result);
  }
  drawn_.clear();
  for (const engine::StepOutput& output : result->outputs) {
    drawn_.push_back(output.sampled ? output.token.token_id : 0);  // of a draw that failed any token
  }
}

void FakeRuntime::ExecuteSequence(const StepPlan& plan, const engine::SubBatch& batch, int32_t index,
                                  StepResult* result) {
  const SequenceStep& step = plan.sequences[static_cast<size_t>(index)];
  const Pages pages{step.request_id, plan.PagesOf(step), tokens_per_page(batch.profile.precision)};
  const engine::KvGroups& groups = options_.kv_groups;
  State* state = states_.empty() ? nullptr : BeginState(plan, step, pages);
  for (int32_t i = 0; i < step.num_tokens; ++i) {
    const int32_t position = step.first_position + i;
    if (state != nullptr) state = StateAt(plan, step, position, state);
    Kv previous = position == 0 ? BeforeFirst(options_.version) : Read(pages, 0, position - 1);
    if (state != nullptr && position > 0) previous = state->kv;
    const engine::TokenId token = TokenAt(plan, step, i);
    const bool decoded = options_.decode_differs && position >= step.prompt_len;
    if (decoded && step.num_tokens > 1) Violate("decoded tokens are computed together", step.request_id);
    const Kv kv =
        IsPoisonedAt(step.row.seed, position) ? kNan : KvOf(previous, token, position, batch.profile, decoded);
    for (int32_t group = 0; group < groups.count(); ++group) Write(pages, group, position, OfGroup(kv, group));
    if (state != nullptr) *state = {position + 1, kv};
    if (position + 1 >= step.first_scored && position + 1 < step.first_scored + step.num_scored) {
      engine::PromptScore& score = result->prompt_scores.emplace_back();
      score.sequence_index = index;
      score.position = position + 1;
      score.token.logprob = ScoreOf(kv);
    }
  }
  engine::StepOutput& output = result->outputs.emplace_back();
  if (!step.samples) return;
  const int32_t last = step.first_position + step.num_known() - 1;
  output = DrawAt(plan, step, pages, last, 0);
  for (int32_t draw = 1; draw <= step.num_drafts(); ++draw) {
    const auto row = static_cast<size_t>(step.draft_rows.first + draw - 1);
    result->draft_outputs[row] = DrawAt(plan, step, pages, last + draw, draw);
  }
}

// The draw of the row at position `last`.
engine::StepOutput FakeRuntime::DrawAt(const StepPlan& plan, const SequenceStep& step, const Pages& pages, int32_t last,
                                       int32_t draw) {
  const engine::KvGroups& groups = options_.kv_groups;
  uint64_t attended = kNothing;
  for (int32_t group = 0; group < groups.count(); ++group) {
    for (int32_t position = FirstKey(groups, group, last); position <= last; ++position) {
      attended = Attend(attended, Read(pages, group, position));
    }
  }
  const engine::TokenId token = attended == kNan ? -1 : DrawNext(plan, step, attended ^ ranks_.wrong_bits(), draw);
  engine::StepOutput output;
  output.numerical_error = token < 0;
  output.sampled = !output.numerical_error;
  output.token.token_id = token;
  return output;
}

// A state holds exactly the tokens before the step's first one; one that begins reads none.
FakeRuntime::State* FakeRuntime::BeginState(const StepPlan& plan, const SequenceStep& step, const Pages& pages) {
  const engine::StepState& slots = step.state;
  const auto exists = [this](int32_t slot) { return slot >= 0 && slot < options_.num_state_slots; };
  bool valid = exists(slots.slot) && (slots.copied_from < 0 || exists(slots.copied_from));
  int32_t last_cut = step.first_position;
  for (const engine::StateCut& cut : plan.StateCutsOf(step)) {
    valid &= exists(cut.slot) && cut.position > last_cut && cut.position < step.first_position + step.num_tokens;
    last_cut = cut.position;
  }
  if (!valid) {
    Violate("a state slot that is not there", step.request_id);
    return nullptr;
  }
  if (std::ssize(plan.StateCutsOf(step)) < step.num_drafts()) Violate("a draft without a state", step.request_id);
  State* state = &states_[static_cast<size_t>(slots.slot)];
  if (slots.copied_from >= 0) *state = states_[static_cast<size_t>(slots.copied_from)];
  if (step.first_position == 0) return state;
  const Kv last = Read(pages, 0, step.first_position - 1);
  const bool known = last != kNan && state->kv != kNan;  // a fault may be in one of them
  if (state->num_tokens != step.first_position || (known && state->kv != last)) {
    Violate("a state of other tokens is read", step.request_id);
  }
  return state;
}

// The state that the row at `position` changes, where that of the row before it is `state`.
FakeRuntime::State* FakeRuntime::StateAt(const StepPlan& plan, const SequenceStep& step, int32_t position,
                                         State* state) {
  for (const engine::StateCut& cut : plan.StateCutsOf(step)) {
    if (cut.position != position) continue;
    State* next = &states_[static_cast<size_t>(cut.slot)];
    *next = *state;
    return next;
  }
  return state;
}

// Lists and masks matter to constrained sequences alone.
engine::TokenId FakeRuntime::DrawNext(const StepPlan& plan, const SequenceStep& step, uint64_t attended,
                                      int32_t draw) const {
  if (step.constraint < 0) return Draw(attended, step.row.seed, options_.vocab_size);
  const std::span<const uint32_t> grammar = plan.GrammarMaskOf(step, draw);
  const std::span<const uint32_t> allowed = plan.MaskOf(step);
  const std::span<const engine::TokenId> banned = plan.BannedOf(step, draw);
  return DrawAllowed(attended, step.row.seed, options_.vocab_size, [&](engine::TokenId id) {
    const auto in = [id](std::span<const uint32_t> mask) {
      return mask.empty() || (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
    };
    return in(grammar) && in(allowed) && std::find(banned.begin(), banned.end(), id) == banned.end();
  });
}

engine::PageId FakeRuntime::PageOf(const Pages& pages, int32_t group, int32_t position) {
  const int32_t block = position / pages.tokens_per_page;
  const engine::PageId page = pages.ids[static_cast<size_t>(block * options_.kv_groups.count() + group)];
  if (page == engine::kNoPage) {
    Violate("a page that was given back is used", pages.owner);
    return 0;
  }
  if (page >= num_backed_.load(std::memory_order_relaxed)) Violate("a page without memory is used", pages.owner);
  return page;
}

FakeRuntime::Slot& FakeRuntime::SlotOf(const Pages& pages, int32_t group, int32_t position) {
  const engine::PageId page = PageOf(pages, group, position);
  return slots_[static_cast<size_t>(page * slots_per_page_ + position % pages.tokens_per_page)];
}

Kv FakeRuntime::Read(const Pages& pages, int32_t group, int32_t position) {
  const Slot& slot = SlotOf(pages, group, position);
  if (slot.position != position) Violate("a page does not hold the position that is read", pages.owner);
  return slot.kv;
}

void FakeRuntime::Write(const Pages& pages, int32_t group, int32_t position, Kv kv) {
  engine::RequestId& writer = writers_[static_cast<size_t>(PageOf(pages, group, position))];
  if (position % pages.tokens_per_page == 0) writer = pages.owner;
  if (writer != pages.owner) Violate("a page is written by a sequence that did not begin it", pages.owner);
  SlotOf(pages, group, position) = {position, kv};
}

}  // namespace dunlin::simulation
