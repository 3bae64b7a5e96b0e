// SPDX-License-Identifier: Apache-2.0
// A small model that guesses the next tokens of the sequences of a larger one with the same vocabulary: greedy, in
// forward passes over all sequences of a call. The first pass computes what is new to it, the later ones a row for each
// sequence. It has a runtime of its own: pages, buffers, inputs; only the device is shared.
//
// What is new is the last drawn tokens, as a rule. A prompt, or what came while it rested, is computed in parts of
// kMaxTokensPerPass tokens, one a call, so that a call takes about as long as so many tokens; until it has caught up
// with a sequence there are no guesses at it.
// Thread rule: constructed anywhere; from then on the engine thread, but for progress().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/draft_model/draft_sequences.h"
#include "engine/model/model.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/options.h"
#include "engine/runtime/model_runtime.h"
#include "engine/runtime/profiles.h"
#include "engine/speculation/batch_drafter.h"

namespace dunlin::engine {

class DraftModel final : public BatchDrafter {
 public:
  static constexpr int32_t kMaxTokensPerPass = 256;
  // Sequences whose pages are kept, for each of a call: those that wait for their turn keep theirs for a while.
  static constexpr int32_t kSequencesKept = 2;

  // options: kv_memory_bytes, max_context_tokens and max_sequences (of a call) of the draft; the rest as the larger
  // model's. vocab_size: the larger model's, below which all guesses are. Errors: of ModelRuntime::Create and of
  // ProfileTable::Resolve; FAILED_PRECONDITION for a model with recurrent layers, whose state has no way back. model
  // outlives it.
  static absl::StatusOr<std::unique_ptr<DraftModel>> Create(const Model* model, const EngineOptions& options,
                                                            int32_t vocab_size);
  // What Create makes of a config's options: those of the draft's runtime.
  static EngineOptions RuntimeOptions(const EngineOptions& options);

  int32_t max_sequences() const override { return max_sequences_; }
  absl::StatusOr<DraftWork> Draft(std::span<const DraftDemand> demands) override;
  uint64_t progress() const override { return runtime_->progress(); }
  const MemoryPlan& memory_plan() const { return runtime_->memory_plan(); }

 private:
  // A sequence of the call that is not done.
  struct Active {
    DraftSequence* sequence;
    const DraftDemand* demand;
    bool is_planned = false;  // in plan_; after that, goes on
  };
  struct VocabSizes {
    int32_t target;  // of the larger model
    int32_t own;
  };

  DraftModel(std::unique_ptr<ModelRuntime> runtime, const ExecutionProfile& profile, const EngineOptions& options,
             const VocabSizes& vocab);

  bool KnowsAll(std::span<const TokenId> tokens) const;
  // Fills plan_ with the next tokens of active_, as far as there is room.
  void PlanPass();
  void PlanSequence(int32_t index, bool decodes);
  // Takes what plan_ gave; drops sequences that have their guesses, have not caught up, or found no room.
  void TakePass();

  const std::unique_ptr<ModelRuntime> runtime_;
  const ExecutionProfile profile_;
  const int32_t max_sequences_;
  const VocabSizes vocab_;
  const SamplingParams greedy_;
  const StoppingParams stopping_;
  DraftSequences sequences_;
  std::vector<Active> active_;
  StepPlan plan_;
  StepResult result_;
};

}  // namespace dunlin::engine
