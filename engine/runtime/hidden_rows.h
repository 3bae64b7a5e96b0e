// SPDX-License-Identifier: Apache-2.0
// Where the final hidden rows of the last steps lie, for a layer that predicts from them (engine/layers/predictor.h):
// a ring of steps, then a row for each sequence of a prediction. A row that is not known any more costs a guess.
// Thread rule: the engine thread only. Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/step_plan.h"

namespace dunlin::engine {

class HiddenRows {
 public:
  // Rows of memory for steps of max_tokens tokens, of which num_steps may be in flight, and predictions.
  static constexpr int64_t NumRows(int32_t num_steps, int32_t max_tokens, int32_t max_sequences) {
    return (int64_t{num_steps} + 1) * max_tokens + max_sequences;
  }
  HiddenRows(int32_t num_steps, int32_t max_tokens, int32_t max_sequences);

  void BeginStep() { ++step_; }
  // The row of the running step's token `index`.
  int32_t RowOfStep(int32_t index) const { return static_cast<int32_t>(step_ % num_steps_) * max_tokens_ + index; }
  // That a sequence's share of the running step begins at that row.
  void Note(const SequenceStep& step, int32_t row);
  // The row of a sequence's position; -1: it is not known.
  int32_t Find(RequestId id, int32_t position) const;
  // Where a prediction leaves that of its index-th sequence.
  int32_t RowOfPrediction(int32_t index) const { return num_steps_ * max_tokens_ + index; }

 private:
  struct Share {
    RequestId id = 0;
    int64_t step = 0;
    int32_t first_position = 0;
    int32_t num_rows = 0;
    int32_t row = 0;
  };
  Share& PlaceOf(RequestId id) { return shares_[static_cast<size_t>(id) % shares_.size()]; }

  int32_t num_steps_;  // of the ring
  int32_t max_tokens_;
  int64_t step_ = 0;
  std::vector<Share> shares_;  // by id; ids that share a place overwrite each other's
};

}  // namespace dunlin::engine
