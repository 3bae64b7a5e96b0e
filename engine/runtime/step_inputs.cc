// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_inputs.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/runtime/decode_shapes.h"

namespace dunlin::engine {
namespace {

int32_t PagesOf(const SequenceStep& step, int32_t tokens_per_page) {
  return PagesFor(step.first_position + step.num_tokens, tokens_per_page);
}

bool IsOneDraw(const SequenceStep& step) {
  return step.num_tokens == 1 && step.samples && step.num_scored == 0 && step.num_drafts() == 0 &&
         step.adapter == nullptr;
}

size_t ArrayBytes(const MemoryPlan& plan) {
  return plan[BufferId::kIndices] + plan[BufferId::kSpans] + plan[BufferId::kPageTable];
}

}  // namespace

size_t StepInputs::ArenaBytes(const MemoryPlan& plan) {
  const size_t rotations = static_cast<size_t>(plan.max_tokens_per_step) * static_cast<size_t>(plan.image_rotation.dim);
  return ArrayBytes(plan) + rotations * sizeof(float);
}

StepInputs::StepInputs(const MemoryPlan& plan)
    : StepInputs(plan, std::vector<int32_t>(ArenaBytes(plan) / sizeof(int32_t)), nullptr) {}

StepInputs::StepInputs(const MemoryPlan& plan, int32_t* arena) : StepInputs(plan, {}, arena) {}

StepInputs::StepInputs(const MemoryPlan& plan, std::vector<int32_t> own, int32_t* arena)
    : own_(std::move(own)),
      arena_(arena == nullptr ? own_.data() : arena),
      max_words_(ArrayBytes(plan) / sizeof(int32_t)),
      image_rotation_(plan.image_rotation),
      rotations_(reinterpret_cast<float*>(arena_ + max_words_)),
      max_tokens_(plan.max_tokens_per_step),
      max_sequences_(plan.max_sequences),
      max_context_tokens_(plan.max_context_tokens),
      num_groups_(plan.kv_groups.count()),
      has_state_(plan.num_state_slots > 0),
      takes_drawn_(plan.takes_drawn_tokens),
      predicts_(plan.predicts),
      predictor_group_(plan.predictor_group),
      chunk_(plan.attention_chunk),
      first_token_(plan.first_token) {
  DUNLIN_CHECK(chunk_ == 0 || !has_state_, "chunks of positions next to states are not supported");
  DUNLIN_CHECK(!takes_drawn_ || (!has_state_ && first_token_ == 0), "tokens that are not known are not supported here");
  head_rows_.reserve(static_cast<size_t>(plan.max_tokens_per_step));
  row_runs_.reserve(static_cast<size_t>(plan.max_tokens_per_step));  // at most one a token
  if (!has_state_) return;
  state_copies_.reserve(static_cast<size_t>(plan.max_sequences) + static_cast<size_t>(plan.max_tokens_per_step));
  state_parts_.reserve(kMaxDrafts + 2);
}

// The sub-batch's share of the arena.
void StepInputs::Place(const SubBatch& batch, int32_t num_repeated, int32_t pages_per_sequence) {
  DUNLIN_CHECK(batch.num_tokens <= max_tokens_, "a sub-batch exceeds the step's planned tokens");
  if (!own_.empty()) Restart();
  num_tokens_ = batch.num_tokens + num_repeated;
  num_decode_tokens_ = batch.num_decode_tokens + num_repeated;
  num_sequences_ = batch.num_sequences + num_repeated;
  page_table_stride_ = pages_per_sequence;
  const auto sequences = static_cast<size_t>(num_sequences_);
  const size_t index_words = static_cast<size_t>(num_arrays()) * static_cast<size_t>(num_tokens_);
  const size_t span_words = static_cast<size_t>(max_spans()) * sizeof(kernels::SequenceSpan) / sizeof(int32_t);
  const size_t page_words = static_cast<size_t>(num_groups_) * sequences * static_cast<size_t>(pages_per_sequence);
  const size_t words = index_words + span_words + page_words;
  DUNLIN_CHECK(words <= max_words_ - next_word_, "a step exceeds the planned inputs");
  indices_ = arena_ + next_word_;
  spans_ = reinterpret_cast<kernels::SequenceSpan*>(indices_ + index_words);
  page_table_ = indices_ + index_words + span_words;
  next_word_ += words;
}

void StepInputs::Stage(const StepPlan& plan, const SubBatch& batch, int32_t tokens_per_page) {
  next_token_ = 0;
  head_rows_.clear();
  row_runs_.clear();
  num_one_token_ = 0;
  max_query_tokens_ = 0;
  max_kv_tokens_ = 0;
  int32_t most_pages = 0;
  int32_t shortest = 0;
  bool all_draw = true;
  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    most_pages = std::max(most_pages, PagesOf(step, tokens_per_page));
    if (step.num_tokens == 1 && num_one_token_ == i) ++num_one_token_;
    max_query_tokens_ = std::max(max_query_tokens_, step.num_tokens);
    max_kv_tokens_ = std::max(max_kv_tokens_, step.first_position + step.num_tokens);
    const SequenceStep& best = plan.sequences[static_cast<size_t>(batch.first_sequence + shortest)];
    if (step.first_position < best.first_position) shortest = i;
    all_draw = all_draw && IsOneDraw(step);
  }
  int32_t num_repeated = 0;
  if (rounds_shapes_ && batch.num_decode_tokens == batch.num_tokens) {
    max_kv_tokens_ = RoundedBound(max_kv_tokens_, max_context_tokens_);
    most_pages = std::max(most_pages, PagesFor(max_kv_tokens_, tokens_per_page));
    // The sub-batches of a step share its memory.
    if (all_draw && !has_state_ && plan.sub_batches.size() == 1) {
      const auto max_rows = static_cast<int32_t>(std::min(max_tokens_, max_sequences_));
      num_repeated = RoundedRows(batch.num_tokens, max_rows) - batch.num_tokens;
    }
  }
  Place(batch, num_repeated, most_pages);

  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const int32_t sequence_index = batch.first_sequence + i;
    const SequenceStep& step = plan.sequences[static_cast<size_t>(sequence_index)];
    spans_[i] = {.query_start = next_token_,
                 .query_len = step.num_tokens,
                 .first_position = step.first_position,
                 .page_table_row = i};
    StagePages(plan, step, i, PagesOf(step, tokens_per_page));
    StageHeadRows(step, sequence_index);
    StageTokens(plan, step, tokens_per_page);
    StageRows(step, spans_[i].query_start);
  }
  DUNLIN_CHECK(next_token_ == batch.num_tokens, "a sub-batch miscounts its tokens");
  num_kept_rows_ = static_cast<int32_t>(head_rows_.size()) + num_repeated;
  repeated_row_ = shortest;
  for (int32_t i = 0; i < num_repeated; ++i) RepeatRow(shortest, batch.num_tokens + i);
  num_one_token_ += num_repeated;
  StageHeadSpans(batch.first_sequence);
  if (has_state_) StageStates(plan, batch);
  if (chunk_ == 0) return;
  chunk_spans_ = head_chunk_spans_ = {};
  chunk_spans_ = StageChunks(0, query_spans(), tokens_per_page);
  if (has_head_spans()) head_chunk_spans_ = StageChunks(num_sequences_, head_bounds(), tokens_per_page);
}

// Every piece has a row or more, so that there are no more of them than rows. Those of one row at the start stay that.
QuerySpans StepInputs::StageChunks(int32_t first, const QuerySpans& whole, int32_t tokens_per_page) {
  kernels::SequenceSpan* const pieces = spans_ + num_whole_spans() + chunk_spans_.count;
  QuerySpans cut{.num_one_token = whole.num_one_token,
                 .max_query_tokens = std::min(whole.max_query_tokens, chunk_),
                 .max_kv_tokens = std::min(whole.max_kv_tokens, chunk_)};
  for (int32_t i = 0; i < whole.count; ++i) {
    const kernels::SequenceSpan& span = spans_[first + i];
    const int32_t end = span.first_position + span.query_len;
    for (int32_t position = span.first_position; position < end;) {
      const int32_t start = position - position % chunk_;
      const int32_t next = std::min(end, start + chunk_);
      const int64_t page = span.page_table_row * page_table_stride_ + start / tokens_per_page;
      pieces[cut.count++] = {.query_start = span.query_start + position - span.first_position,
                             .query_len = next - position,
                             .first_position = position - start,
                             .page_table_row = static_cast<int32_t>(page)};
      position = next;
    }
  }
  return cut;
}

int32_t StepInputs::num_staged_spans() const {
  if (chunk_ > 0) return num_whole_spans() + chunk_spans_.count + head_chunk_spans_.count;
  return num_sequences_ + num_head_spans_ + (state_parts_.size() > 1 ? num_state_spans_ : 0);
}

// Kernels may read whole tiles of keys, so that entries behind a window name pages, too. Pages that have been given
// back are a sequence's first ones: from its end on, only those that it has are looked at one by one.
void StepInputs::StagePages(const StepPlan& plan, const SequenceStep& step, int32_t row, int32_t num_page_sets) {
  const std::span<const PageId> pages = plan.PagesOf(step);
  DUNLIN_CHECK(pages.size() >= static_cast<size_t>(num_page_sets) * static_cast<size_t>(num_groups_),
               "a planned token has no page");
  for (int32_t group = 0; group < num_groups_; ++group) {
    int32_t* table = page_table_ + (int64_t{group} * num_sequences_ + row) * page_table_stride_;
    const PageId* of_group = pages.data() + group;
    const PageId last = of_group[int64_t{num_page_sets - 1} * num_groups_];
    DUNLIN_CHECK(last != kNoPage, "a planned token has no page");
    int32_t set = num_page_sets;
    for (; set > 0 && of_group[int64_t{set - 1} * num_groups_] != kNoPage; --set) {
      table[set - 1] = of_group[int64_t{set - 1} * num_groups_];
    }
    std::fill_n(table, set, last);
  }
}

void StepInputs::StageTokens(const StepPlan& plan, const SequenceStep& step, int32_t tokens_per_page) {
  const TokenId* tokens = plan.TokensOf(step).data();
  const PageId* pages = plan.PagesOf(step).data();
  DUNLIN_CHECK(next_token_ + step.num_tokens <= num_tokens_, "a sub-batch miscounts its tokens");
  for (int32_t i = 0; i < step.num_tokens; ++i) {
    const int32_t position = step.first_position + i;
    host_array(0)[next_token_] = (IsRowToken(tokens[i]) ? 0 : tokens[i]) - first_token_;
    host_array(1)[next_token_] = position - step.position_shift;
    host_array(2)[next_token_] = position % tokens_per_page;
    const PageId* set = pages + int64_t{position / tokens_per_page} * num_groups_;
    for (int32_t group = 0; group < num_groups_; ++group) {
      DUNLIN_CHECK(set[group] != kNoPage, "a planned token has no page");
      host_array(4 + group)[next_token_] = set[group];
    }
    ++next_token_;
  }
}

void StepInputs::StageHeadRows(const SequenceStep& step, int32_t sequence_index) {
  for (int32_t position = step.first_scored; position < step.first_scored + step.num_scored; ++position) {
    AddHeadRow(next_token_ + position - 1 - step.first_position, {sequence_index, position});
  }
  if (!step.samples) return;
  const int32_t last_known = next_token_ + step.num_known() - 1;
  AddHeadRow(last_known, {sequence_index, -1});
  for (int32_t i = 0; i < step.num_drafts(); ++i) {
    AddHeadRow(last_known + 1 + i, {sequence_index, -1, step.draft_rows.first + i});
  }
}

void StepInputs::AddHeadRow(int32_t row, HeadRow head_row) {
  DUNLIN_CHECK(head_rows_.size() < static_cast<size_t>(num_tokens_), "more head rows than tokens");
  host_array(3)[head_rows_.size()] = row;
  head_rows_.push_back(head_row);
}

// Of sub-batches with one token of each sequence: a sequence with the pages of this one. Two rows then write the same
// keys and values, of equal bits, to one place.
void StepInputs::RepeatRow(int32_t row, int32_t to) {
  for (int array = 0; array < predictor_array(); ++array) host_array(array)[to] = host_array(array)[row];
  host_array(3)[to] = to;
  spans_[to] = spans_[row];
  spans_[to].query_start = to;
}

// One for each run of neighbours.
void StepInputs::StageHeadSpans(int32_t first_sequence) {
  num_head_spans_ = max_head_query_tokens_ = max_head_kv_tokens_ = 0;
  if (num_kept_rows_ == num_tokens_) return;
  kernels::SequenceSpan* spans = spans_ + num_sequences_;
  for (size_t i = 0; i < head_rows_.size(); ++i) {
    const int32_t row = host_array(3)[i];
    const int32_t sequence = head_rows_[i].sequence_index - first_sequence;
    kernels::SequenceSpan* last = num_head_spans_ > 0 ? &spans[num_head_spans_ - 1] : nullptr;
    if (last == nullptr || last->page_table_row != sequence || row != host_array(3)[i - 1] + 1) {
      DUNLIN_CHECK(num_head_spans_ < (kSpansPerSequence - 1) * num_sequences_,
                   "the head's rows lie in more runs than planned");
      last = &spans[num_head_spans_++];
      *last = {.query_start = static_cast<int32_t>(i),
               .query_len = 0,
               .first_position = spans_[sequence].first_position + row - spans_[sequence].query_start,
               .page_table_row = sequence};
    }
    max_head_query_tokens_ = std::max(max_head_query_tokens_, ++last->query_len);
    max_head_kv_tokens_ = std::max(max_head_kv_tokens_, last->first_position + last->query_len);
  }
}

// A row whose hidden row is not known, as that before a sequence's first one is not, is computed all the same: it goes
// to the place of the last position, which the next step writes. The place of the position before a step may be in a
// page that others have, too: all of them write it with what they know of the token after it.
void StepInputs::StagePredictor(const StepPlan& plan, const SubBatch& batch, int32_t tokens_per_page, int32_t first_row,
                                HiddenRows* rows) {
  int32_t next = 0;
  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    const PageId* pages = plan.PagesOf(step).data();
    const int32_t row = rows->RowOfStep(first_row + next);
    const int32_t before = step.first_position == 0 ? -1 : rows->Find(step.request_id, step.first_position - 1);
    for (int32_t k = 0; k < step.num_tokens; ++k, ++next) {
      const int32_t hidden = k > 0 ? row + k - 1 : before;
      const int32_t position = step.first_position + (hidden < 0 ? step.num_tokens : k) - 1;
      const int32_t page = pages[int64_t{position / tokens_per_page} * num_groups_ + predictor_group_];
      const int32_t values[kPredictorArrays] = {position, page, position % tokens_per_page, hidden < 0 ? row : hidden};
      for (int array = 0; array < kPredictorArrays; ++array)
        host_array(predictor_array() + array)[next] = values[array];
    }
    rows->Note(step, row);
  }
  for (; next < num_tokens_; ++next) {
    for (int array = predictor_array(); array < num_arrays(); ++array) {
      host_array(array)[next] = host_array(array)[repeated_row_];
    }
  }
}

void StepInputs::StagePrediction(std::span<const int32_t> hidden_rows) {
  for (int32_t i = 0; i < num_tokens_; ++i) {
    const int32_t values[kPredictorArrays] = {host_array(1)[i], host_array(4 + predictor_group_)[i], host_array(2)[i],
                                              hidden_rows[static_cast<size_t>(i)]};
    for (int array = 0; array < kPredictorArrays; ++array) host_array(predictor_array() + array)[i] = values[array];
  }
}

PassInputs StepInputs::predictor_inputs() const {
  PassInputs inputs = pass_inputs();
  inputs.positions = device_array(predictor_array());
  // Layers find the pages of their group after those of the groups before, which the one array stands for.
  inputs.token_page = device_array(predictor_array() + 1 - predictor_group_);
  inputs.token_slot = device_array(predictor_array() + 2);
  inputs.hidden_rows = device_array(predictor_array() + 3);
  inputs.state_parts = {};
  inputs.row_runs = {};
  return inputs;
}

PassInputs StepInputs::pass_inputs() const {
  return {.num_tokens = num_tokens_,
          .num_decode_tokens = num_decode_tokens_,
          .token_ids = token_ids(),
          .positions = positions(),
          .token_page = token_page(),
          .token_slot = token_slot(),
          .spans = query_spans(),
          .chunk_spans = chunk_spans_,
          .page_table = page_table(),
          .page_table_stride = page_table_stride_,
          .state_parts = state_parts(),
          .row_runs = row_runs(),
          .kept = {.index = head_row_index(),
                   .count = num_kept_rows_,
                   .num_decode = num_kept_rows_,
                   .spans = has_head_spans() ? head_spans() : QuerySpans{},
                   .chunk_spans = head_chunk_spans_}};
}

kernels::KernelStatus StepInputs::Upload(StepBuffers* buffers) {
  const kernels::Device& device = *buffers->device();
  auto* indices = static_cast<int32_t*>(buffers->at(BufferId::kIndices));
  auto* spans = static_cast<kernels::SequenceSpan*>(buffers->at(BufferId::kSpans));
  auto* page_table = static_cast<int32_t*>(buffers->at(BufferId::kPageTable));
  const size_t page_words =
      static_cast<size_t>(num_groups_) * static_cast<size_t>(num_sequences_) * static_cast<size_t>(page_table_stride_);
  const auto num_spans = static_cast<size_t>(num_staged_spans());
  const struct {
    void* to;
    const void* from;
    size_t bytes;
  } copies[] = {
      {indices, indices_, static_cast<size_t>(num_arrays()) * static_cast<size_t>(num_tokens_) * sizeof(int32_t)},
      {spans, spans_, num_spans * sizeof(kernels::SequenceSpan)},
      {page_table, page_table_, page_words * sizeof(int32_t)},
  };
  for (const auto& copy : copies) {
    if (copy.bytes == 0) continue;
    const auto status = device.ops->copy_to_device(device.context, copy.to, copy.from, copy.bytes);
    if (status != kernels::KernelStatus::kOk) return status;
  }
  device_indices_ = indices;
  device_spans_ = spans;
  device_page_table_ = page_table;
  if (has_state_) PointStateParts();
  if (chunk_ > 0) {
    chunk_spans_.first = spans + num_whole_spans();
    head_chunk_spans_.first = chunk_spans_.first + chunk_spans_.count;
  }
  return kernels::KernelStatus::kOk;
}

}  // namespace dunlin::engine
