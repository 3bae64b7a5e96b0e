// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_cost.h"

#include <algorithm>
#include <cmath>

namespace dunlin::engine {
namespace {

constexpr double kCostFade = 0.98;     // a measurement counts half after 34 more
constexpr int kSweeps = 16;            // of coordinate descent a measurement; each continues from the last solution
constexpr double kFaded = 1e-30;       // a feature that no recent step had keeps its weight
constexpr int64_t kToTrust = 8;        // measurements; before that a prediction judges none
constexpr double kOutlier = 4.0;       // a longer one counts as so many times its prediction,
constexpr double kLeastOutlier = 0.1;  // or as this part of its step, if that is more: no error of a weight is kept

}  // namespace

// The square of an error counts by the size of its step, so that short steps are not lost beside long ones. What the
// first features can explain is theirs: the last one, a fixed part, takes the rest.
template <size_t N>
void LinearFit<N>::Learn(const Row& row, double time, double size) {
  if (num_learned_++ >= kToTrust) time = std::min(time, std::max(kLeastOutlier * size, kOutlier * Predict(row)));
  for (size_t i = 0; i < N; ++i) {
    for (size_t j = 0; j < N; ++j) products_[i][j] = kCostFade * products_[i][j] + row[i] * row[j] / size;
    targets_[i] = kCostFade * targets_[i] + row[i] * time / size;
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < N; ++i) {
      if (products_[i][i] < kFaded) continue;
      double rest = targets_[i];
      for (size_t j = 0; j < N; ++j) rest -= products_[i][j] * weights_[j];
      weights_[i] = std::max(0.0, weights_[i] + rest / products_[i][i]);
    }
  }
}

template class LinearFit<2>;
template class LinearFit<3>;

StepCost::Load StepCost::LoadOf(const StepPlan& plan) {
  Load load;
  for (const SequenceStep& step : plan.sequences) {
    if (step.first_position >= step.prompt_len && step.num_known() == 1) {
      for (int32_t i = 0; i < step.num_tokens; ++i) load.AddDecode(step.first_position + i);
    } else {
      load.AddPrompt(step.first_position, step.num_tokens);
    }
  }
  return load;
}

double StepCost::Predict(const Load& load) const {
  return decodes_.Predict({load.decodes, load.decode_context, 1.0}) + PredictPrompt(load);
}

void StepCost::Learn(const Load& load, TimeNs elapsed) {
  const auto time = static_cast<double>(elapsed);
  const LinearFit<3>::Row decodes = {load.decodes, load.decode_context, 1.0};
  if (load.prompt_tokens == 0.0) return decodes_.Learn(decodes, time, time);
  // 0 where the step took no longer than its decodes are expected to: a few tokens of a prompt are lost in the noise.
  prompts_.Learn({load.prompt_tokens, load.prompt_context}, std::max(0.0, time - decodes_.Predict(decodes)), time);
}

// n tokens take a n + b n^2 / 2, with a for a token at first_position and b for one more of context.
int32_t StepCost::PromptTokensWithin(double time, int32_t first_position, int32_t limit) const {
  if (time <= 0.0) return 0;
  const double b = prompts_.weight(1);
  const double a = prompts_.weight(0) + b * first_position;
  const double n = 2.0 * time / (a + std::sqrt(a * a + 2.0 * b * time));  // stable where b is 0
  return n < static_cast<double>(limit) ? static_cast<int32_t>(n) : limit;
}

}  // namespace dunlin::engine
