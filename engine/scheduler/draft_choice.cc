// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/draft_choice.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

constexpr double kMargin = 1.2;       // on what rows cost: errors of estimates must not cost what plain decode gives
constexpr double kLeastGain = 0.05;   // outputs a step: less is lost in the noise
constexpr double kProbeShare = 0.01;  // of the time of all steps
constexpr double kFirstBudget = 1.0;  // steps, when the first one has been timed
constexpr double kMostBudget = 1.5;   // steps: what is saved up is not lost at once
constexpr int64_t kPlainAge = 256;    // steps for which the time of plain decode is taken for known

// Expected outputs of `count` guesses.
double Expected(double acceptance, int32_t count) {
  double expected = 0.0;
  double chance = 1.0;
  for (int32_t i = 0; i < count; ++i) expected += chance *= acceptance;
  return expected;
}

}  // namespace

void DraftChoice::Learn(int32_t rows, TimeNs elapsed) {
  const auto time = static_cast<double>(elapsed);
  const bool first = cost_.most_rows() == 0;
  cost_.Learn(rows, elapsed);
  budget_ = first ? kFirstBudget * time : std::min(budget_ + kProbeShare * time, kMostBudget * time);
}

bool DraftChoice::KnowsPlain(int32_t plain_rows) const {
  return plain_rows > 0 && cost_.NumMeasured(plain_rows, kPlainAge) > 0;
}

double DraftChoice::Added(const Base& base, int32_t count) const {
  const double rows = cost_.Predict(base.step.rows + count) - base.time;
  return std::max(0.0, rows) + count * base.step.per_guess;
}

double DraftChoice::AddedAtMost(const Base& base, int32_t count) const {
  if (cost_.NumMeasured(base.step.rows + count) > 0) return Added(base, count);
  const double row = base.time / base.step.rows + base.step.per_guess;
  return std::max(Added(base, count), Added(base, count - 1) + row);
}

// Beside several sequences a row more is lost in the noise: some more rows tell as much.
bool DraftChoice::IsMeasured(const DraftStep& step, int32_t count) const {
  const int32_t first = step.rows + count;
  for (int32_t rows = first; rows < first + step.plain_rows; rows += 1 + rows / RowCost::kExactRows) {
    if (cost_.NumMeasured(rows) >= RowCost::kMeasurementsToTrust) return true;
  }
  return false;
}

double DraftChoice::Rate(const Base& base, int32_t count, double added) {
  const double gain = count > 0 ? Expected(base.acceptance, count) - kLeastGain : 0.0;
  return (base.step.outputs + gain) / (base.time + base.step.drafting + kMargin * added);
}

// More guesses than the best number, as far as the first whose time is not known, if they pay in case that no row from
// there on takes any time.
DraftChoice::Choice DraftChoice::Probe(const Base& base, int32_t limit, const Choice& best, double best_rate) const {
  int32_t count = best.count + 1;
  while (count <= limit && IsMeasured(base.step, count)) ++count;
  if (count > limit) return best;
  const double known = Added(base, count - 1);
  double hoped = 0.0;
  for (int32_t more = count; more <= limit; ++more) {
    hoped = std::max(hoped, Rate(base, more, known + (more - count + 1) * base.step.per_guess));
  }
  if (hoped <= best_rate) return best;
  const double gain = base.time * Expected(base.acceptance, count) / base.step.outputs;
  const double risk = std::max(0.0, AddedAtMost(base, count) - gain);
  return risk <= budget_ ? Choice{.count = count, .risk = risk} : best;
}

DraftChoice::Choice DraftChoice::Choose(const DraftStep& step, double acceptance, int32_t limit) const {
  if (limit <= 0 || !KnowsPlain(step.plain_rows)) return {};
  const int32_t most = cost_.most_rows() + std::max(step.plain_rows, cost_.most_rows() - step.plain_rows);
  limit = std::min(limit, most - step.rows);
  const Base base = {.step = step, .acceptance = acceptance, .time = cost_.Predict(step.rows)};
  Choice best;
  double best_rate = Rate(base, 0, 0.0);
  for (int32_t count = 1; count <= limit; ++count) {
    const double rate = Rate(base, count, Added(base, count));
    if (rate <= best_rate) continue;
    best_rate = rate;
    best.count = count;
  }
  return Probe(base, limit, best, best_rate);
}

void DraftChoice::Add(const Choice& choice, double acceptance, DraftStep* step) {
  step->rows += choice.count;
  step->outputs += Expected(acceptance, choice.count);
  step->drafting += choice.count * step->per_guess;
}

}  // namespace dunlin::engine
