// SPDX-License-Identifier: Apache-2.0
// What not every step's inputs have: the parts in which rows of a recurrent model go through states, the tokens that
// the step before draws, and rows of prompts.
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/request/image_positions.h"
#include "engine/runtime/step_inputs.h"

namespace dunlin::engine {

// Parts have rows of their own each, so that all together have at most as many spans as the sub-batch has tokens.
void StepInputs::StageStates(const StepPlan& plan, const SubBatch& batch) {
  state_copies_.clear();
  state_parts_.clear();
  num_state_spans_ = 0;
  size_t most_cuts = 0;
  for (int32_t i = 0; i < num_sequences_; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    most_cuts = std::max(most_cuts, plan.StateCutsOf(step).size());
  }
  for (size_t part = 0; part <= most_cuts; ++part) StageStatePart(plan, batch, part);
}

void StepInputs::StageStatePart(const StepPlan& plan, const SubBatch& batch, size_t part) {
  kernels::SequenceSpan* spans = spans_ + num_sequences_ + num_head_spans_;
  StatePart& staged = state_parts_.emplace_back();
  for (int32_t i = 0; i < num_sequences_; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    const std::span<const StateCut> cuts = plan.StateCutsOf(step);
    if (part > cuts.size()) continue;
    const int32_t from = part == 0 ? step.first_position : cuts[part - 1].position;
    const int32_t end = part == cuts.size() ? step.first_position + step.num_tokens : cuts[part].position;
    DUNLIN_CHECK(from < end, "a state is kept outside of a step");
    const auto slot_of = [&](size_t of_part) { return of_part == 0 ? step.state.slot : cuts[of_part - 1].slot; };
    const int32_t copied_from = part == 0 ? step.state.copied_from : slot_of(part - 1);
    if (copied_from >= 0) {
      state_copies_.push_back({copied_from, slot_of(part)});
      ++staged.num_copies;
    }
    spans[num_state_spans_] = {.query_start = spans_[i].query_start + from - step.first_position,
                               .query_len = end - from,
                               .first_position = from,
                               .page_table_row = i};
    host_array(4 + num_groups_)[num_state_spans_++] = slot_of(part);
    ++staged.count;
  }
}

// A part alone has the spans of the sequences themselves.
void StepInputs::PointStateParts() {
  const bool alone = state_parts_.size() == 1;
  const kernels::SequenceSpan* spans = device_spans_ + (alone ? 0 : num_sequences_ + num_head_spans_);
  const int32_t* slots = device_array(4 + num_groups_);
  const StateCopy* copies = state_copies_.data();
  for (StatePart& part : state_parts_) {
    part.spans = std::exchange(spans, spans + part.count);
    part.slots = std::exchange(slots, slots + part.count);
    part.copies = std::exchange(copies, copies + part.num_copies);
  }
}

// first_row: of the step's tokens, which have been staged.
void StepInputs::StageRows(const SequenceStep& step, int32_t first_row) {
  if (step.rows == nullptr) return;
  const int64_t columns = step.rows->columns;
  const int32_t end = step.first_position + step.num_tokens;
  const float* values = step.rows->values.data();
  int32_t shift = 0;
  for (const PromptRows::Span& span : step.rows->spans) {
    const int32_t first = std::max(span.first, step.first_position);
    const int32_t num_rows = std::min(span.first + span.count, end) - first;
    if (num_rows > 0) {
      RowRun& run = row_runs_.emplace_back();
      run = {.values = values + (first - span.first) * columns,
             .first_row = first_row + first - step.first_position,
             .num_rows = num_rows};
      if (span.image_columns > 0) {
        run.rotations = StageRotations({.columns = span.image_columns,
                                        .first = first - span.first,
                                        .count = num_rows,
                                        .first_position = span.first - shift});
      }
    }
    values += span.count * columns;
    shift += ShiftOf(span);
  }
  ShiftPositions(step, first_row);
}

// Of tokens after images that begin or end in the step; those before it are in position_shift.
void StepInputs::ShiftPositions(const SequenceStep& step, int32_t first_row) {
  int32_t* const positions = host_array(1) + first_row;
  int32_t shift = 0;
  int32_t next = 0;  // of the step's tokens
  for (const PromptRows::Span& span : step.rows->spans) {
    const int32_t end = span.first + span.count - step.first_position;
    if (end >= step.num_tokens) break;
    if (end <= 0) continue;
    for (; next < end; ++next) positions[next] -= shift;
    shift += ShiftOf(span);
  }
  for (; next < step.num_tokens; ++next) positions[next] -= shift;
}

const float* StepInputs::StageRotations(const ImageRows& rows) {
  DUNLIN_CHECK(image_rotation_.dim > 0, "an image with columns, of a model that does not rotate by them");
  DUNLIN_CHECK(next_rotation_ + rows.count <= max_tokens_, "a step exceeds the planned rotations of images");
  float* const rotations = rotations_ + next_rotation_ * image_rotation_.dim;
  next_rotation_ += rows.count;
  FillImageRotations(image_rotation_, rows, rotations);
  return rotations;
}

bool StepInputs::StageDrawn(const StepPlan& plan, const SubBatch& batch, std::span<const int32_t> draws) {
  bool any = false;
  int32_t* const rows = host_array(drawn_array());
  std::fill_n(rows, num_tokens_, -1);
  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    if (step.drawn_by < 0) continue;
    any = true;
    rows[spans_[i].query_start] = draws[static_cast<size_t>(step.drawn_by)];
  }
  std::fill(rows + batch.num_tokens, rows + num_tokens_, rows[repeated_row_]);
  return any;
}

kernels::KernelStatus StepInputs::TakeDrawn(StepBuffers* buffers) {
  const kernels::TakeDrawnParams params{
      .drawn = static_cast<const kernels::SampledToken*>(buffers->at(BufferId::kSampled)),
      .rows = device_array(drawn_array()),
      .token_ids = static_cast<int32_t*>(buffers->at(BufferId::kIndices)),
      .num_tokens = num_tokens_};
  return buffers->device()->ops->take_drawn(buffers->device()->context, params);
}

}  // namespace dunlin::engine
