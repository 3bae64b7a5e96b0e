// SPDX-License-Identifier: Apache-2.0
// How long a step takes, learned from the steps so far. What decodes cost (a fixed part, one for each sequence, one for
// each token of its context) is learned from steps without prompts; what prompts add (a part for each token and for
// each token that it attends to), from what the others take longer: a fixed part that were learned from both could take
// the prompts' place. Which time passed is an argument; nothing is allocated. Thread rule: the engine thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/plan/step_plan.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// A linear function fitted to recent measurements: least squares with weights that are never negative.
template <size_t N>
class LinearFit {
 public:
  using Row = std::array<double, N>;

  // A row of features took `time` >= 0 of a step of `size` > 0, to which an error is compared.
  void Learn(const Row& row, double time, double size);
  double Predict(const Row& row) const {
    double time = 0.0;
    for (size_t i = 0; i < N; ++i) time += weights_[i] * row[i];
    return time;
  }
  double weight(size_t feature) const { return weights_[feature]; }

 private:
  Row weights_ = {};
  // The normal equations: sums of x x^T and of x t, older ones fading.
  std::array<Row, N> products_ = {};
  Row targets_ = {};
  int64_t num_learned_ = 0;
};

class StepCost {
 public:
  // What a step computes. The context of a token is the number of tokens that it attends to.
  struct Load {
    double prompt_tokens = 0.0;
    double prompt_context = 0.0;  // of all these tokens together
    double decodes = 0.0;
    double decode_context = 0.0;

    void AddPrompt(int32_t first_position, int32_t num_tokens) {
      const double n = num_tokens;
      prompt_tokens += n;
      prompt_context += n * (first_position + 0.5 * n);
    }
    void AddDecode(int32_t position) {
      decodes += 1.0;
      decode_context += position;
    }
  };
  // A draft counts as a decode of its position.
  static Load LoadOf(const StepPlan& plan);

  // A step of this load took `elapsed` > 0.
  void Learn(const Load& load, TimeNs elapsed);
  // Nanoseconds; 0 before the first Learn.
  double Predict(const Load& load) const;
  // Without the fixed part: what a prompt adds to a step.
  double PredictPrompt(const Load& load) const { return prompts_.Predict({load.prompt_tokens, load.prompt_context}); }
  // The most tokens of a prompt from `first_position` on that add at most `time` nanoseconds to a step; at most
  // `limit`.
  int32_t PromptTokensWithin(double time, int32_t first_position, int32_t limit) const;

 private:
  LinearFit<3> decodes_;  // sequences, context, fixed
  LinearFit<2> prompts_;  // tokens, context
};

}  // namespace dunlin::engine
