// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_model/draft_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/plan/sequence_view.h"
#include "spdlog/spdlog.h"

namespace dunlin::engine {
namespace {

// Tokens that a pass computes as decoded ones: the drawn tokens of a step, as a rule. More are a prompt's.
constexpr int32_t kFewTokens = kMaxDrafts + 1;

SamplingParams Greedy() {
  SamplingParams greedy;
  greedy.temperature = 0.0F;
  return greedy;
}

}  // namespace

EngineOptions DraftModel::RuntimeOptions(const EngineOptions& options) {
  EngineOptions own;
  own.max_sequences = options.max_sequences;
  own.max_tokens_per_step = std::max(kMaxTokensPerPass, options.max_sequences);
  own.kv_memory_bytes = options.kv_memory_bytes;
  own.max_context_tokens = options.max_context_tokens;
  own.free_pages_behind_windows = false;
  own.execution = options.execution;
  own.plan_ahead = false;  // each pass is waited for
  own.attention_backends = options.attention_backends;
  return own;
}

absl::StatusOr<std::unique_ptr<DraftModel>> DraftModel::Create(const Model* model, const EngineOptions& options,
                                                               int32_t vocab_size) {
  const ModelConfig& config = model->config();
  if (config.is_recurrent()) {
    return absl::FailedPreconditionError(absl::StrCat(
        config.architecture, " has recurrent layers, whose state cannot be taken back behind a rejected token"));
  }
  const EngineOptions own = RuntimeOptions(options);
  const ProfileTable profiles(config, model->precisions(), *model->device(), own, model->own_precision(),
                              model->int8_inputs());
  const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve({});
  if (!profile.ok()) return profile.status();
  absl::StatusOr<std::unique_ptr<ModelRuntime>> runtime = ModelRuntime::Create(model, own);
  if (!runtime.ok()) return runtime.status();
  std::string notice;
  if (absl::Status status = (*runtime)->WarmUp(profiles, &notice); !status.ok()) return status;
  if (!notice.empty()) spdlog::warn("draft model: {}", notice);
  return std::unique_ptr<DraftModel>(
      new DraftModel(*std::move(runtime), *profile, own, {.target = vocab_size, .own = config.vocab_size}));
}

DraftModel::DraftModel(std::unique_ptr<ModelRuntime> runtime, const ExecutionProfile& profile,
                       const EngineOptions& options, const VocabSizes& vocab)
    : runtime_(std::move(runtime)),
      profile_(profile),
      max_sequences_(options.max_sequences),
      vocab_(vocab),
      greedy_(Greedy()),
      sequences_({.num_sequences = kSequencesKept * options.max_sequences,
                  .num_pages = runtime_->num_pages(),
                  .num_groups = runtime_->kv_groups().count(),
                  .tokens_per_page = runtime_->tokens_per_page(profile.precision),
                  .max_tokens = memory_plan().max_context_tokens}) {
  const MemoryPlan& memory = memory_plan();
  active_.reserve(static_cast<size_t>(max_sequences_));
  plan_.Reserve({.max_sequences = max_sequences_,
                 .max_tokens = memory.max_tokens_per_step,
                 .max_context_tokens = memory.max_context_tokens,
                 .max_pages_per_sequence = memory.max_pages_per_sequence * memory.kv_groups.count(),
                 .vocab_size = vocab.own});
  result_.Reserve(max_sequences_, memory.max_tokens_per_step);
}

absl::StatusOr<DraftWork> DraftModel::Draft(std::span<const DraftDemand> demands) {
  DUNLIN_CHECK(demands.size() <= static_cast<size_t>(max_sequences_), "more sequences than a draft model takes");
  DraftWork work;
  sequences_.BeginCall();
  active_.clear();
  for (const DraftDemand& demand : demands) {
    if (!KnowsAll(demand.tokens)) continue;
    DraftSequence* sequence = sequences_.Find(demand.sequence_id, demand.tokens);
    if (sequence != nullptr) active_.push_back({sequence, &demand});
  }
  while (true) {
    PlanPass();
    if (plan_.empty()) return work;
    const absl::StatusOr<StepHandle> handle = runtime_->Launch(plan_);
    if (!handle.ok()) return handle.status();
    result_.Clear();
    if (absl::Status status = runtime_->Collect(*handle, &result_); !status.ok()) return status;
    ++work.rounds;
    work.rows += plan_.num_tokens;
    TakePass();
  }
}

// Rows of the embedding that the larger model has in addition are no tokens of this one.
bool DraftModel::KnowsAll(std::span<const TokenId> tokens) const {
  return vocab_.own >= vocab_.target ||
         std::all_of(tokens.begin(), tokens.end(), [this](TokenId token) { return token < vocab_.own; });
}

// Sequences that decode lead a sub-batch.
void DraftModel::PlanPass() {
  plan_.Clear();
  for (const bool decodes : {true, false}) {
    for (size_t i = 0; i < active_.size(); ++i) {
      const DraftSequence& sequence = *active_[i].sequence;
      const bool is_decode = sequence.num_computed > 0 && sequence.num_uncomputed() <= kFewTokens;
      if (is_decode == decodes) PlanSequence(static_cast<int32_t>(i), decodes);
    }
  }
}

void DraftModel::PlanSequence(int32_t index, bool decodes) {
  Active& active = active_[static_cast<size_t>(index)];
  DraftSequence* sequence = active.sequence;
  const int32_t first = sequence->num_computed;
  const int32_t room = memory_plan().max_tokens_per_step - plan_.num_tokens;
  const int32_t wanted = std::min(sequence->num_uncomputed(), room);
  const int32_t count = wanted == 0 ? 0 : sequences_.Reserve(sequence, first + wanted) - first;
  active.is_planned = count > 0;
  if (!active.is_planned) return;
  AppendSequence(profile_,
                 {.sequence_slot = index,
                  .tokens = sequence->tokens,
                  .prompt_len = decodes ? 1 : first + count,
                  .pages = sequence->pages,
                  .sampling = greedy_,
                  .stopping = stopping_},
                 {.first_position = first, .num_tokens = count, .samples = count == sequence->num_uncomputed()},
                 &plan_);
}

void DraftModel::TakePass() {
  for (size_t i = 0; i < plan_.sequences.size(); ++i) {
    const SequenceStep& step = plan_.sequences[i];
    const StepOutput& output = result_.outputs[i];
    Active& active = active_[static_cast<size_t>(step.sequence_slot)];
    active.sequence->num_computed += step.num_tokens;
    active.is_planned = output.sampled && output.token.token_id < vocab_.target;
    if (!active.is_planned) continue;
    std::vector<TokenId>* guesses = active.demand->guesses;
    guesses->push_back(output.token.token_id);
    const bool is_last = guesses->size() == static_cast<size_t>(active.demand->max_drafts);
    active.is_planned = !is_last && active.sequence->num_tokens() < sequences_.max_tokens();
    if (active.is_planned) active.sequence->tokens.push_back(output.token.token_id);
  }
  std::erase_if(active_, [](const Active& active) { return !active.is_planned; });
}

}  // namespace dunlin::engine
