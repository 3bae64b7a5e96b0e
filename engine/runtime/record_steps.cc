// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/record_steps.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/decode_shapes.h"

namespace dunlin::engine {
namespace {

// A device that has no room for further graphs, or records none, is not asked for all shapes.
constexpr int32_t kMaxFailed = 3;

bool SameBits(const StepOutput& a, const StepOutput& b) {
  if (a.sampled != b.sampled || a.numerical_error != b.numerical_error) return false;
  return !a.sampled || (a.token.token_id == b.token.token_id &&
                        std::bit_cast<uint32_t>(a.token.logprob) == std::bit_cast<uint32_t>(b.token.logprob));
}

class StepRecorder {
 public:
  StepRecorder(const ModelConfig& config, ModelRuntime* runtime)
      : vocab_size_(config.vocab_size), memory_(runtime->memory_plan()), runtime_(runtime) {
    sampling_.temperature = 0.0F;
    sampling_.logprobs = 0;
  }

  // Runs a step of the shape twice, as it is and recorded: whether both gave the same bits. A prompt before each leaves
  // the buffers with other rows, so that an operation that a graph lacks shows.
  absl::StatusOr<bool> Record(const ExecutionProfile& profile, const DecodeShape& shape) {
    const StepPlan step = DecodeStep(profile, shape);
    std::vector<StepOutput> outputs[2];
    for (std::vector<StepOutput>& of_round : outputs) {
      if (absl::Status status = RunPrompt(profile); !status.ok()) return status;
      if (absl::Status status = Run(step); !status.ok()) return status;
      of_round = result_.outputs;
    }
    return std::ranges::equal(outputs[0], outputs[1], SameBits);
  }

 private:
  int32_t num_groups() const { return memory_.kv_groups.count(); }
  // The first page of each group, over and over.
  std::vector<PageId> Pages(int32_t num_page_sets) const {
    std::vector<PageId> pages(static_cast<size_t>(num_page_sets * num_groups()));
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<PageId>(i % static_cast<size_t>(num_groups()));
    return pages;
  }
  void Append(const ExecutionProfile& profile, const std::vector<TokenId>& tokens, int32_t prompt_len,
              const std::vector<PageId>& pages, const StepShare& share, StepPlan* plan) const {
    AppendSequence(profile,
                   {.tokens = tokens, .prompt_len = prompt_len, .pages = pages, .sampling = sampling_, .stopping = {}},
                   share, plan);
  }

  // Writes all of the page.
  absl::Status RunPrompt(const ExecutionProfile& profile) {
    const int32_t count = std::min(runtime_->tokens_per_page(profile.precision), memory_.max_context_tokens);
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 1);
    for (TokenId& token : tokens) token %= vocab_size_;
    for (int32_t first = 0; first < count; first += memory_.max_tokens_per_step) {
      const int32_t num_tokens = std::min(memory_.max_tokens_per_step, count - first);
      StepPlan plan;
      Append(profile, tokens, count, Pages(1),
             {.first_position = first, .num_tokens = num_tokens, .samples = first + num_tokens == count}, &plan);
      if (absl::Status status = Run(plan); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // One sequence of as many tokens as the bound, and others that are alike. Only rows of equal bits are written to one
  // place: the others' position is not the first one's in its page.
  StepPlan DecodeStep(const ExecutionProfile& profile, const DecodeShape& shape) const {
    const int32_t per_page = runtime_->tokens_per_page(profile.precision);
    const std::vector<PageId> pages = Pages(PagesFor(shape.bound, per_page));
    const int32_t others = shape.bound > 2 && (shape.bound - 1) % per_page == 1 ? 3 : 2;
    StepPlan plan;
    for (int32_t row = 0; row < shape.rows; ++row) {
      const int32_t num_tokens = row == 0 ? shape.bound : others;
      Append(profile, std::vector<TokenId>(static_cast<size_t>(num_tokens), 0), 1, pages,
             {.first_position = num_tokens - 1, .num_tokens = 1, .samples = true}, &plan);
    }
    return plan;
  }

  absl::Status Run(const StepPlan& plan) {
    const absl::StatusOr<StepHandle> handle = runtime_->Launch(plan);
    if (!handle.ok()) return handle.status();
    return runtime_->Collect(*handle, &result_);
  }

  const int32_t vocab_size_;
  const MemoryPlan& memory_;
  ModelRuntime* const runtime_;
  SamplingParams sampling_;
  StepResult result_;
};

std::vector<ExecutionProfile> ProfilesToRecord(const Model& model, const ProfileTable& profiles,
                                               const MemoryPlan& memory) {
  std::vector<ExecutionProfile> found;
  for (const Precision precision : model.precisions()) {
    if (precision == Precision::kFp8 && memory[BufferId::kFp8Scales] > 0) continue;
    ExecutionChoice choice;
    choice.precision = precision;
    const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve(choice);
    if (profile.ok()) found.push_back(*profile);  // else no backend serves it
  }
  return found;
}

void Note(const std::string& what, std::string* notice) {
  absl::StrAppend(notice, notice->empty() ? "" : "; ", what);
}

constexpr char kPlain[] = "every operation of a step is launched by itself, as with compute.cuda_graphs: false";

absl::Status NoteFailed(ModelRuntime* runtime, std::string* notice) {
  const StepGraphs* graphs = runtime->graphs();
  const int32_t failed = graphs->num_failed();
  if (failed == 0) return absl::OkStatus();
  if (graphs->num_graphs() == 0) {
    runtime->TurnOffGraphs();
    Note(absl::StrCat("the device could not record decode steps, so that ", kPlain), notice);
  } else {
    Note(absl::StrCat("the device recorded ", graphs->num_graphs(), " shapes of decode steps and could not record ",
                      failed, ", whose operations are launched by themselves (compute.cuda_graphs)"),
         notice);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordDecodeSteps(const Model& model, const ProfileTable& profiles, ModelRuntime* runtime,
                               std::string* notice) {
  const MemoryPlan& memory = runtime->memory_plan();
  StepGraphs& graphs = *runtime->graphs();
  if (!graphs.on() || memory.max_context_tokens < 2) return absl::OkStatus();
  StepRecorder recorder(model.config(), runtime);
  const int32_t max_rows = std::min(memory.max_sequences, memory.max_tokens_per_step);
  const std::vector<ExecutionProfile> recorded = ProfilesToRecord(model, profiles, memory);
  for (const DecodeShape& shape : DecodeShapes(max_rows, memory.max_context_tokens)) {
    for (const ExecutionProfile& profile : recorded) {
      if (graphs.is_full() || graphs.num_failed() == kMaxFailed) return NoteFailed(runtime, notice);
      const absl::StatusOr<bool> same = recorder.Record(profile, shape);
      if (!same.ok()) return same.status();
      if (*same) continue;
      runtime->TurnOffGraphs();
      Note(absl::StrCat("a recorded decode step of ", shape.rows, " rows in ", kernels::Name(profile.precision),
                        " has other bits than its operations, so that ", kPlain),
           notice);
      return absl::OkStatus();
    }
  }
  return NoteFailed(runtime, notice);
}

}  // namespace dunlin::engine
