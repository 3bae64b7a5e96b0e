// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/hidden_rows.h"

namespace dunlin::engine {
namespace {

constexpr size_t kPlacesPerSequence = 4;  // ids of sequences that run are close to each other, so few share a place

}  // namespace

HiddenRows::HiddenRows(int32_t num_steps, int32_t max_tokens, int32_t max_sequences)
    : num_steps_(num_steps + 1),
      max_tokens_(max_tokens),
      shares_(kPlacesPerSequence * static_cast<size_t>(max_sequences)) {}

void HiddenRows::Note(const SequenceStep& step, int32_t row) {
  PlaceOf(step.request_id) = {.id = step.request_id,
                              .step = step_,
                              .first_position = step.first_position,
                              .num_rows = step.num_tokens,
                              .row = row};
}

int32_t HiddenRows::Find(RequestId id, int32_t position) const {
  const Share& share = shares_[static_cast<size_t>(id) % shares_.size()];
  const int32_t index = position - share.first_position;
  const bool known = share.num_rows > 0 && share.id == id && step_ - share.step < num_steps_;
  return known && index >= 0 && index < share.num_rows ? share.row + index : -1;
}

}  // namespace dunlin::engine
