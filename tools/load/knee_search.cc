// SPDX-License-Identifier: Apache-2.0
#include "tools/load/knee_search.h"

#include <algorithm>
#include <cmath>

namespace dunlin::tools::load {

std::optional<double> KneeSearch::Next() const {
  if (static_cast<int>(steps_.size()) >= options_.max_steps) return std::nullopt;
  if (steps_.empty()) return options_.start;
  if (best_ == 0) return std::nullopt;
  double load = best_ * options_.factor;
  if (broken_ > 0) {
    if (num_refined_ >= options_.refinements) return std::nullopt;
    load = (best_ + broken_) / 2;
  }
  if (options_.whole_numbers) load = std::floor(load);
  if (load <= best_ || (broken_ > 0 && load >= broken_)) return std::nullopt;
  return load;
}

void KneeSearch::Add(Step step) {
  num_refined_ += broken_ > 0 ? 1 : 0;
  step.sustained = step.ratio >= options_.min_ratio && step.goodput > best_goodput_ * (1 + options_.min_gain);
  if (step.sustained) {
    best_ = step.load;
    best_goodput_ = step.goodput;
  } else {
    broken_ = broken_ == 0 ? step.load : std::min(broken_, step.load);
  }
  steps_.push_back(step);
}

std::optional<KneeSearch::Step> KneeSearch::knee() const {
  for (const Step& step : steps_) {
    if (step.sustained && step.load == best_) return step;
  }
  return std::nullopt;
}

}  // namespace dunlin::tools::load
