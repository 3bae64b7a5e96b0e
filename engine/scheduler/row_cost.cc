// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/row_cost.h"

#include <algorithm>
#include <bit>

namespace dunlin::engine {
namespace {

constexpr int32_t kMeanOf = 10;      // measurements
constexpr double kMostChange = 1.5;  // by which a single one may differ: an interrupted step takes many times as long

}  // namespace

size_t RowCost::IndexOf(int32_t rows) {
  if (rows <= kExactRows) return static_cast<size_t>(rows - 1);
  const auto wide = static_cast<uint32_t>(rows);
  const auto octave = static_cast<size_t>(std::bit_width(wide)) - 1;  // >= 4: 16 to 31
  const size_t quarter = (wide >> (octave - 2)) & (kPerOctave - 1);
  return std::min(kExactRows + kPerOctave * (octave - 4) + quarter, kExactRows + kPerOctave * kOctaves - 1);
}

void RowCost::Learn(int32_t rows, TimeNs elapsed) {
  const auto time = static_cast<double>(elapsed);
  Entry& entry = entries_[IndexOf(rows)];
  ++num_steps_;
  most_rows_ = std::max(most_rows_, rows);
  if (!IsKnown(entry)) entry.num_measured = 0;
  entry.num_measured = std::min(entry.num_measured + 1, kMeanOf);
  if (entry.num_measured <= 2) {
    const bool first = entry.num_measured == 1;
    entry.time = first ? time : std::min(entry.time, time);
    entry.rows = first ? rows : entry.rows;
  } else {
    const double weight = 1.0 / entry.num_measured;
    const double change = std::clamp(time / entry.time, 1.0 / kMostChange, kMostChange);
    const double factor = 1.0 + weight * (change - 1.0);
    if (entry.num_measured == kMeanOf) Follow(entry, factor);
    entry.time *= factor;
    entry.rows += weight * (rows - entry.rows);
  }
  entry.last_step = num_steps_;
}

// One that was measured since is right already. While `measured` has few measurements, it is its own error that they
// mend.
void RowCost::Follow(const Entry& measured, double factor) {
  for (Entry& entry : entries_) {
    if (entry.last_step < measured.last_step) entry.time *= factor;
  }
}

double RowCost::Predict(double rows) const {
  const Entry* below = nullptr;  // the nearest two measured ones with fewer rows, or as many
  const Entry* before = nullptr;
  for (const Entry& entry : entries_) {
    if (!IsKnown(entry)) continue;
    if (entry.rows > rows) {
      if (below == nullptr) return entry.time;
      const double slope = (entry.time - below->time) / (entry.rows - below->rows);
      return below->time + std::max(0.0, slope) * (rows - below->rows);
    }
    before = below;
    below = &entry;
  }
  if (below == nullptr) return 0.0;
  if (before == nullptr) return below->time * rows / below->rows;
  const double slope = (below->time - before->time) / (below->rows - before->rows);
  return below->time + std::max(0.0, slope) * (rows - below->rows);
}

int32_t RowCost::NumMeasured(int32_t rows, int64_t max_age) const {
  const Entry& entry = entries_[IndexOf(rows)];
  return IsKnown(entry) && num_steps_ - entry.last_step <= max_age ? entry.num_measured : 0;
}

}  // namespace dunlin::engine
