// SPDX-License-Identifier: Apache-2.0
// A sub-batch as flat arrays, which the kernels read to gather tokens, find pages and pick the rows of the head.
// Staged in host memory, then copied to the device; Stage and Upload do not allocate. The sub-batches of a step are
// staged one after another in memory, so that one may still be copied while the next is staged.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/layers/pass_inputs.h"
#include "engine/plan/step_plan.h"
#include "engine/runtime/hidden_rows.h"
#include "engine/runtime/image_rotations.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/attention.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

// A row whose logits are needed: to draw the next token, or to score a prompt token.
struct HeadRow {
  int32_t sequence_index = 0;    // in StepPlan::sequences
  int32_t scored_position = -1;  // the prompt position this row scores; -1: it draws
  int32_t draft_row = -1;        // of StepPlan::draft_rows, if it draws behind a draft
};

class StepInputs {
 public:
  // In memory of its own: a copy has read it on return, so that every Stage begins anew.
  explicit StepInputs(const MemoryPlan& plan);
  // In memory of DeviceOps::allocate_host: ArenaBytes(plan), borrowed. The sub-batches of one step fit.
  StepInputs(const MemoryPlan& plan, int32_t* arena);
  static size_t ArenaBytes(const MemoryPlan& plan);

  // From now on sub-batches without prefill are rounded up to few shapes (decode_shapes.h). Their bounds
  // (QuerySpans::max_kv_tokens, page_table_stride), within the plan's context, change once in a while as sequences
  // grow, not in every step. Where each sequence draws one token, and the step has no other sub-batch, rows follow that
  // repeat the one of fewest keys; what they give is nobody's, head_rows() does not have them.
  void RoundShapes() { rounds_shapes_ = true; }

  // For a new step: what was staged has been copied.
  void Restart() {
    next_word_ = 0;
    next_rotation_ = 0;
  }
  // Fills the arrays from one sub-batch. REQUIRES: it fits the plan, and its tokens have pages.
  void Stage(const StepPlan& plan, const SubBatch& batch, int32_t tokens_per_page);
  // Of a layer that predicts, after Stage: the rows of the positions before the tokens, whose hidden rows `rows` knows,
  // and the first of which is the running step's row first_row. Notes the shares of the sub-batch there.
  void StagePredictor(const StepPlan& plan, const SubBatch& batch, int32_t tokens_per_page, int32_t first_row,
                      HiddenRows* rows);
  // The same of a prediction: rows of the positions themselves, with these hidden rows, [num_tokens].
  void StagePrediction(std::span<const int32_t> hidden_rows);
  // Of a plan with MemoryPlan::takes_drawn_tokens, after Stage: the tokens that the step before draws. draws: by index
  // of its sequences, the rows of kSampled of their draws. False: there are none.
  bool StageDrawn(const StepPlan& plan, const SubBatch& batch, std::span<const int32_t> draws);
  // Puts those tokens into what Upload has copied. REQUIRES: StageDrawn returned true.
  kernels::KernelStatus TakeDrawn(StepBuffers* buffers);
  // Copies what is staged into kIndices, kSpans and kPageTable.
  kernels::KernelStatus Upload(StepBuffers* buffers);

  int32_t num_tokens() const { return num_tokens_; }
  // The first of the tokens, which decode; the rest are prefill.
  int32_t num_decode_tokens() const { return num_decode_tokens_; }
  int32_t num_sequences() const { return num_sequences_; }
  QuerySpans query_spans() const {
    return {spans(), num_sequences_, num_one_token_, max_query_tokens_, max_kv_tokens_};
  }
  int64_t page_table_stride() const { return page_table_stride_; }
  // What a forward pass reads, valid after Upload until the next Stage. The kept rows are the head's: they give the
  // next token, so all of them run as decode, however few their neighbours make them.
  PassInputs pass_inputs() const;
  // The same of the layer that predicts, whose rows have no head.
  PassInputs predictor_inputs() const;
  // In ascending (sequence, position) order: the first of the kept rows.
  const std::vector<HeadRow>& head_rows() const { return head_rows_; }
  // The head's rows as a call of attention of their own, row i of the queries for head row i: sequences whose last rows
  // they are. Staged where the head takes some of the rows and not all.
  bool has_head_spans() const { return num_head_spans_ > 0; }
  QuerySpans head_spans() const {
    QuerySpans spans = head_bounds();
    spans.first = device_spans_ + num_sequences_;
    return spans;
  }

  // Device arrays, valid after Upload.
  const int32_t* token_ids() const { return device_array(0); }       // [num_tokens]
  const int32_t* positions() const { return device_array(1); }       // [num_tokens] index in the sequence, less shifts
  const int32_t* token_slot() const { return device_array(2); }      // [num_tokens] index in the page
  const int32_t* head_row_index() const { return device_array(3); }  // [kept rows] row of the batch
  const int32_t* token_page() const { return device_array(4); }      // [groups, num_tokens] page id
  // Of a recurrent model; else empty. Valid after Upload until the next Stage.
  StateParts state_parts() const { return {state_parts_.data(), static_cast<int32_t>(state_parts_.size())}; }
  // Null where there are none, in every slot of a step.
  HostList<RowRun> row_runs() const {
    if (row_runs_.empty()) return {};
    return {row_runs_.data(), static_cast<int32_t>(row_runs_.size())};
  }
  const kernels::SequenceSpan* spans() const { return device_spans_; }  // [num_sequences]
  // PassInputs::chunk_spans, of the sequences and of the head's rows; empty where no layer has chunks.
  QuerySpans chunk_spans() const { return chunk_spans_; }
  QuerySpans head_chunk_spans() const { return head_chunk_spans_; }
  // [groups, num_sequences, page_table_stride]. In place of pages that a sequence has given back stands its last one.
  const int32_t* page_table() const { return device_page_table_; }

 private:
  int num_arrays() const { return predictor_array() + (predicts_ ? kPredictorArrays : 0); }
  // Where there are no states.
  int drawn_array() const { return 4 + num_groups_; }
  int predictor_array() const { return 4 + num_groups_ + (has_state_ || takes_drawn_ ? 1 : 0); }
  int32_t max_spans() const {
    return kSpansPerSequence * num_sequences_ + (has_state_ ? num_tokens_ : 0) + (chunk_ > 0 ? 2 * num_tokens_ : 0);
  }
  int32_t* host_array(int array) { return indices_ + int64_t{array} * num_tokens_; }
  const int32_t* device_array(int array) const { return device_indices_ + int64_t{array} * num_tokens_; }
  void Place(const SubBatch& batch, int32_t num_repeated, int32_t pages_per_sequence);
  void StagePages(const StepPlan& plan, const SequenceStep& step, int32_t row, int32_t num_page_sets);
  void StageTokens(const StepPlan& plan, const SequenceStep& step, int32_t tokens_per_page);
  void StageRows(const SequenceStep& step, int32_t first_row);
  void ShiftPositions(const SequenceStep& step, int32_t first_row);
  const float* StageRotations(const ImageRows& rows);
  void RepeatRow(int32_t row, int32_t to);
  void StageHeadRows(const SequenceStep& step, int32_t sequence_index);
  void AddHeadRow(int32_t row, HeadRow head_row);
  void StageHeadSpans(int32_t first_sequence);
  void StageStates(const StepPlan& plan, const SubBatch& batch);
  void StageStatePart(const StepPlan& plan, const SubBatch& batch, size_t part);
  void PointStateParts();
  // head_spans() without their place.
  QuerySpans head_bounds() const {
    const int32_t one_token = max_head_query_tokens_ == 1 ? num_head_spans_ : 0;
    return {nullptr, num_head_spans_, one_token, max_head_query_tokens_, max_head_kv_tokens_};
  }
  // Cuts spans that begin at spans_[first] at the borders of chunks; `whole`: their count and bounds.
  QuerySpans StageChunks(int32_t first, const QuerySpans& whole, int32_t tokens_per_page);
  int32_t num_whole_spans() const { return num_sequences_ + num_head_spans_ + num_state_spans_; }
  int32_t num_staged_spans() const;

  StepInputs(const MemoryPlan& plan, std::vector<int32_t> own, int32_t* arena);

  std::vector<int32_t> own_;  // empty where the memory is borrowed
  int32_t* arena_;            // [ArenaBytes / 4]: of each sub-batch its indices, spans and page table; then rotations
  size_t max_words_;          // without rotations
  size_t next_word_ = 0;
  RotarySpec image_rotation_;  // MemoryPlan's
  float* rotations_;           // [max_tokens, image_rotation_.dim] of the step's images
  int64_t next_rotation_ = 0;  // row
  int64_t max_tokens_;
  int64_t max_sequences_;
  int32_t max_context_tokens_;
  bool rounds_shapes_ = false;
  int32_t num_groups_;  // of layers that share pages
  bool has_state_;
  bool takes_drawn_;
  bool predicts_;
  int32_t predictor_group_;
  int32_t chunk_;        // positions; 0: no layer has chunks
  int32_t first_token_;  // MemoryPlan's
  int32_t num_tokens_ = 0;
  int32_t num_decode_tokens_ = 0;
  int32_t num_sequences_ = 0;
  int32_t num_kept_rows_ = 0;  // the head's, and those that repeat one
  int32_t next_token_ = 0;     // while staging
  int32_t repeated_row_ = 0;   // by the rows after the batch's own
  int64_t page_table_stride_ = 0;
  int32_t num_one_token_ = 0;  // the first of the sequences, which have one token each
  int32_t max_query_tokens_ = 0;
  int32_t max_kv_tokens_ = 0;
  int32_t num_head_spans_ = 0;
  int32_t num_state_spans_ = 0;  // of parts; one part alone has the sequences' own
  int32_t max_head_query_tokens_ = 0;
  int32_t max_head_kv_tokens_ = 0;
  QuerySpans chunk_spans_;
  QuerySpans head_chunk_spans_;
  // Of the sub-batch, in arena_.
  int32_t* indices_ = nullptr;  // [num_arrays, num_tokens]
  kernels::SequenceSpan* spans_ =
      nullptr;  // [max_spans]: the sequences, the head's, those of several state parts, and those cut at chunks
  int32_t* page_table_ = nullptr;        // [num_groups, num_sequences, page_table_stride]
  std::vector<StateCopy> state_copies_;  // of the parts, one after another
  std::vector<StatePart> state_parts_;
  std::vector<HeadRow> head_rows_;
  std::vector<RowRun> row_runs_;
  const int32_t* device_indices_ = nullptr;
  const kernels::SequenceSpan* device_spans_ = nullptr;
  const int32_t* device_page_table_ = nullptr;
};

}  // namespace dunlin::engine
