// SPDX-License-Identifier: Apache-2.0
// How long a step of decodes takes by its rows, drafts included, measured rather than fitted: what bounds a row
// (memory, arithmetic, a kernel's tile) changes with their number, and a straight line through it errs most where it
// matters, at the first rows. One entry a number of rows; above kExactRows four to an octave share one. Noise: the
// lesser of the first two measurements counts (a first step is often slow), then a mean that one step hardly moves.
// Load: when the steps that are measured become slower, so do the others, which are taken to slow down alike; what was
// not measured for long is forgotten. Pure; nothing is allocated. Thread rule: the engine thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

class RowCost {
 public:
  static constexpr int32_t kExactRows = 16;
  static constexpr int32_t kMeasurementsToTrust = 3;
  // Without a measurement: then there is none.
  static constexpr int64_t kStepsToAge = 512;

  // A step of so many rows, >= 1, took `elapsed` > 0.
  void Learn(int32_t rows, TimeNs elapsed);
  // Nanoseconds. Between measured numbers of rows a straight line, above them the one through the last two; above the
  // only one each row costs as much as its rows do, which is the most that it can. 0: nothing is known.
  double Predict(double rows) const;
  // Measurements of this number of rows, the last of them no more than `max_age` steps ago; 0 to 10.
  int32_t NumMeasured(int32_t rows, int64_t max_age = kStepsToAge) const;
  // The most rows of any step that was measured.
  int32_t most_rows() const { return most_rows_; }

 private:
  struct Entry {
    double rows = 0.0;  // the mean where several numbers share it
    double time = 0.0;
    int32_t num_measured = 0;  // up to a limit
    int64_t last_step = 0;     // that measured it
  };
  static constexpr size_t kPerOctave = 4;
  static constexpr size_t kOctaves = 10;

  static size_t IndexOf(int32_t rows);
  bool IsKnown(const Entry& entry) const {
    return entry.num_measured > 0 && num_steps_ - entry.last_step <= kStepsToAge;
  }
  // After the time of `measured` has changed by this factor.
  void Follow(const Entry& measured, double factor);

  std::array<Entry, kExactRows + kPerOctave* kOctaves> entries_ = {};
  int64_t num_steps_ = 0;
  int32_t most_rows_ = 0;
};

}  // namespace dunlin::engine
