#include "tests/simulation/fake_runtime.h"

#include <algorithm>

namespace dunlin::simulation {

using engine::PageId;
using engine::Sequence;
using engine::SequenceStep;
using engine::StepPlan;
using engine::StepResult;
using engine::TokenId;

FakeRuntime::FakeRuntime(const FakeRuntimeOptions& options)
    : options_(options),
      slots_per_page_(*std::max_element(options.tokens_per_page.begin(), options.tokens_per_page.end())),
      slots_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(slots_per_page_)),
      writers_(static_cast<size_t>(options.num_pages)),
      snapshots_(static_cast<size_t>(options.depth)) {
  for (Snapshot& snapshot : snapshots_) {
    snapshot.pages.reserve(size_t{64} * 1024);
    snapshot.first_page.reserve(1024);
    snapshot.tokens.reserve(size_t{64} * 1024);
  }
  early_result_.outputs.reserve(1024);
  early_result_.prompt_scores.reserve(size_t{16} * 1024);
}

void FakeRuntime::Violate(const char* what, uint64_t sequence_id) {
  if (violations_++ == 0) first_violation_ = std::string(what) + ", sequence " + std::to_string(sequence_id);
}

absl::StatusOr<engine::StepHandle> FakeRuntime::Launch(const StepPlan& plan) {
  if (options_.on_launch) options_.on_launch(plan);
  if (num_launched_ == options_.fail_launch_at) return absl::InternalError("launch failed, as asked");
  if (num_launched_ - num_collected_ >= options_.depth) Violate("more steps in flight than the depth", 0);
  CheckPlan(plan);
  Snapshot& snapshot = snapshots_[static_cast<size_t>(num_launched_ % options_.depth)];
  Snap(plan, &snapshot);
  if (options_.depth == 1) {
    early_result_.Clear();
    Execute(snapshot, &early_result_);
  }
  return static_cast<engine::StepHandle>(num_launched_++);
}

absl::Status FakeRuntime::Collect(engine::StepHandle handle, StepResult* result) {
  if (num_collected_ == options_.fail_collect_at) return absl::InternalError("collect failed, as asked");
  if (handle != num_collected_) Violate("steps are collected out of order", 0);
  const Snapshot& snapshot = snapshots_[static_cast<size_t>(num_collected_++ % options_.depth)];
  if (options_.depth > 1) {
    Execute(snapshot, result);
    return absl::OkStatus();
  }
  result->outputs.assign(early_result_.outputs.begin(), early_result_.outputs.end());
  result->prompt_scores.assign(early_result_.prompt_scores.begin(), early_result_.prompt_scores.end());
  return absl::OkStatus();
}

void FakeRuntime::CheckPlan(const StepPlan& plan) {
  int32_t next_sequence = 0;
  int32_t num_tokens = 0;
  for (const engine::SubBatch& batch : plan.sub_batches) {
    if (batch.first_sequence != next_sequence || batch.num_sequences < 1) Violate("sub-batches leave gaps", 0);
    int32_t batch_tokens = 0;
    for (int32_t i = 0; i < batch.num_sequences; ++i) {
      const SequenceStep& step = plan.sequences[static_cast<size_t>(next_sequence + i)];
      if (step.sequence->request.profile != batch.profile) Violate("a sub-batch mixes profiles", step.sequence->id);
      batch_tokens += step.num_tokens;
    }
    if (batch_tokens != batch.num_tokens) Violate("a sub-batch miscounts tokens", 0);
    next_sequence += batch.num_sequences;
    num_tokens += batch_tokens;
  }
  if (next_sequence != static_cast<int32_t>(plan.sequences.size())) Violate("sequences without a sub-batch", 0);
  if (num_tokens != plan.num_tokens) Violate("the plan miscounts tokens", 0);
  for (const SequenceStep& step : plan.sequences) {
    const Sequence& sequence = *step.sequence;
    const int32_t end = step.first_position + step.num_tokens;
    if (step.num_tokens < 1 || end > sequence.num_tokens()) Violate("tokens that are not known", sequence.id);
    if (step.samples != (end == sequence.num_tokens())) Violate("samples is wrong", sequence.id);
    if (end != sequence.next_position()) Violate("positions are not computed in order", sequence.id);
    if (static_cast<int32_t>(sequence.pages.size()) * sequence.tokens_per_page < end) {
      Violate("tokens without pages", sequence.id);
    }
  }
}

void FakeRuntime::Snap(const StepPlan& plan, Snapshot* snapshot) {
  snapshot->plan = &plan;
  snapshot->pages.clear();
  snapshot->first_page.clear();
  snapshot->tokens.clear();
  for (const SequenceStep& step : plan.sequences) {
    const auto first = step.sequence->tokens.begin() + step.first_position;
    snapshot->first_page.push_back(snapshot->pages.size());
    snapshot->pages.insert(snapshot->pages.end(), step.sequence->pages.begin(), step.sequence->pages.end());
    snapshot->tokens.insert(snapshot->tokens.end(), first, first + step.num_tokens);
  }
}

void FakeRuntime::Execute(const Snapshot& snapshot, StepResult* result) {
  const TokenId* tokens = snapshot.tokens.data();
  for (size_t i = 0; i < snapshot.plan->sequences.size(); ++i) {
    const SequenceStep& step = snapshot.plan->sequences[i];
    const PageId* pages = snapshot.pages.data() + snapshot.first_page[i];
    // The list may have grown since the launch, but what was launched must still be the sequence's.
    const auto used =
        static_cast<size_t>(engine::PagesFor(step.first_position + step.num_tokens, step.sequence->tokens_per_page));
    if (step.sequence->pages.size() < used || !std::equal(pages, pages + used, step.sequence->pages.begin())) {
      Violate("pages of a launched step were taken away", step.sequence->id);
    }
    ExecuteSequence(step, static_cast<int32_t>(i), pages, tokens, result);
    tokens += step.num_tokens;
  }
}

void FakeRuntime::ExecuteSequence(const SequenceStep& step, int32_t index, const PageId* pages, const TokenId* tokens,
                                  StepResult* result) {
  const Sequence& sequence = *step.sequence;
  const engine::Request& request = sequence.request;
  for (int32_t i = 0; i < step.num_tokens; ++i) {
    const int32_t position = step.first_position + i;
    const Kv previous = position == 0 ? kNothing : Read(sequence, pages, position - 1);
    const Kv kv = IsPoisonedAt(request, position) ? kNan : KvOf(previous, tokens[i], position, request.profile);
    Write(sequence, pages, position, kv);
    if (request.sampling.prompt_logprobs >= 0 && position + 1 < sequence.prompt_len) {
      engine::PromptScore& score = result->prompt_scores.emplace_back();
      score.sequence_index = index;
      score.position = position + 1;
      score.token.logprob = ScoreOf(kv);
    }
  }
  engine::StepOutput& output = result->outputs.emplace_back();
  if (!step.samples) return;
  uint64_t attended = kNothing;
  for (int32_t position = 0; position < step.first_position + step.num_tokens; ++position) {
    attended = Attend(attended, Read(sequence, pages, position));
  }
  output.numerical_error = attended == kNan;
  output.sampled = !output.numerical_error;
  if (output.sampled) output.token.token_id = Draw(attended, request.sampling, options_.vocab_size);
}

FakeRuntime::Slot& FakeRuntime::SlotOf(const Sequence& sequence, const PageId* pages, int32_t position) {
  const PageId page = pages[position / sequence.tokens_per_page];
  return slots_[static_cast<size_t>(page * slots_per_page_ + position % sequence.tokens_per_page)];
}

Kv FakeRuntime::Read(const Sequence& sequence, const PageId* pages, int32_t position) {
  const Slot& slot = SlotOf(sequence, pages, position);
  if (slot.position != position) Violate("a page does not hold the position that is read", sequence.id);
  return slot.kv;
}

void FakeRuntime::Write(const Sequence& sequence, const PageId* pages, int32_t position, Kv kv) {
  engine::RequestId& writer = writers_[static_cast<size_t>(pages[position / sequence.tokens_per_page])];
  if (position % sequence.tokens_per_page == 0) writer = sequence.id;
  if (writer != sequence.id) Violate("a page is written by a sequence that did not begin it", sequence.id);
  SlotOf(sequence, pages, position) = {position, kv};
}

}  // namespace dunlin::simulation
