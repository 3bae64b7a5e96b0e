// SPDX-License-Identifier: Apache-2.0
// Guesses by the layer of a checkpoint that predicts further tokens (multi-token prediction), greedily: the first from
// the hidden row before a sequence's last token, each further one from the layer's own output. Its keys and values are
// in the sequences' pages, where the model's steps put those of all tokens that they compute, so that it needs no
// prompt of its own, knows the prefix cache, and has nothing to catch up with. Thread rule: constructed anywhere; from
// then on the engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/types.h"
#include "engine/runtime/model_runtime.h"
#include "engine/speculation/batch_drafter.h"

namespace dunlin::engine {

class PredictingLayer final : public BatchDrafter {
 public:
  // runtime: of a model with such a layer (ModelConfig::num_predictors), which outlives it.
  PredictingLayer(ModelRuntime* runtime, int32_t vocab_size);

  int32_t max_sequences() const override { return runtime_->memory_plan().max_sequences; }
  bool writes_pages() const override { return true; }
  absl::StatusOr<DraftWork> Draft(std::span<const DraftDemand> demands) override;

 private:
  // A sequence of the call that is not done.
  struct Active {
    const DraftDemand* demand;
    int32_t position;  // that is predicted from next
    TokenId token;     // after it
    int32_t hidden;    // its row
  };
  void PlanRound();
  // Takes what plan_ gave; drops sequences that have their guesses.
  void TakeRound();

  ModelRuntime* const runtime_;
  std::vector<Active> active_;
  std::vector<int32_t> hidden_rows_;  // of plan_'s sequences
  StepPlan plan_;
  StepResult result_;
};

}  // namespace dunlin::engine
