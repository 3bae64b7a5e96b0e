// SPDX-License-Identifier: Apache-2.0
// How many guesses at a sequence's next tokens a step verifies: as many as give the most expected tokens a second, by
// how often the sequence's guesses are right and by the measured times of steps (row_cost.h); none where no number
// beats plain decode. One for all sequences of a model, which learn its costs together.
//
// Rows that no step has had are tried a few at a time: one guess of each sequence, then up to twice as many as before.
// Guesses that are expected to lose time for the sake of a measurement are probes. They are paid from a budget, a part
// of the time of all steps, so that where guesses never pay, speculation costs no more than that. Pure; nothing is
// allocated. Thread rule: the engine thread only.
#pragma once

#include <cstdint>

#include "engine/request/types.h"
#include "engine/scheduler/row_cost.h"

namespace dunlin::engine {

// A step while guesses are added to it.
struct DraftStep {
  int32_t plain_rows = 0;  // without guesses
  int32_t rows = 0;        // with those so far
  double outputs = 0.0;    // expected of these
  double drafting = 0.0;   // ns, of a draft model
  double per_guess = 0.0;  // ns that a further guess adds to that
};

class DraftChoice {
 public:
  struct Choice {
    int32_t count = 0;
    double risk = 0.0;  // ns, of a probe: what it is expected to lose
  };

  // A step of decodes and drafts alone, so many rows together, took `elapsed` > 0.
  void Learn(int32_t rows, TimeNs elapsed);
  // Nanoseconds; 0 before the first Learn.
  double StepTime(int32_t rows) const { return cost_.Predict(rows); }
  // Whether a step of so many rows without guesses has been timed lately. If not, the next one is to be.
  bool KnowsPlain(int32_t plain_rows) const;
  // Of at most `limit` guesses at the next tokens of one more sequence, each right with the chance `acceptance` if all
  // before it are.
  Choice Choose(const DraftStep& step, double acceptance, int32_t limit) const;
  // The choice is in the step.
  static void Add(const Choice& choice, double acceptance, DraftStep* step);
  // And the step is launched.
  void Pay(const Choice& choice) { budget_ -= choice.risk; }

 private:
  // A step without the guesses that are weighed, and what it takes, ns.
  struct Base {
    const DraftStep& step;
    double acceptance;
    double time;
  };
  // What `count` guesses add to it, ns, by the measurements.
  double Added(const Base& base, int32_t count) const;
  // The same where no row beyond the known ones is cheaper than those of the step.
  double AddedAtMost(const Base& base, int32_t count) const;
  // Outputs a nanosecond with `count` guesses that add the time `added`.
  static double Rate(const Base& base, int32_t count, double added);
  // Whether the time of `count` guesses is known well enough.
  bool IsMeasured(const DraftStep& step, int32_t count) const;
  Choice Probe(const Base& base, int32_t limit, const Choice& best, double best_rate) const;

  RowCost cost_;
  double budget_ = 0.0;  // ns that probes may lose
};

}  // namespace dunlin::engine
