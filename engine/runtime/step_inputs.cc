#include "engine/runtime/step_inputs.h"

#include <algorithm>

#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

int32_t PagesOf(const SequenceStep& step, int32_t tokens_per_page) {
  return (step.first_position + step.num_tokens + tokens_per_page - 1) / tokens_per_page;
}

}  // namespace

StepInputs::StepInputs(const MemoryPlan& plan)
    : max_tokens_(plan.max_tokens_per_step),
      indices_(static_cast<size_t>(kNumArrays) * static_cast<size_t>(plan.max_tokens_per_step)),
      page_table_(plan[BufferId::kPageTable] / sizeof(int32_t)) {
  spans_.reserve(static_cast<size_t>(plan.max_sequences));
  head_rows_.reserve(static_cast<size_t>(plan.max_tokens_per_step));
}

void StepInputs::Stage(const StepPlan& plan, const SubBatch& batch, int32_t tokens_per_page) {
  DUNLIN_CHECK(batch.num_tokens <= max_tokens_, "a sub-batch exceeds the step's planned tokens");
  num_tokens_ = 0;
  num_decode_tokens_ = batch.num_decode_tokens;
  spans_.clear();
  head_rows_.clear();
  max_query_tokens_ = 0;
  max_kv_tokens_ = 0;
  int32_t most_pages = 0;
  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
    most_pages = std::max(most_pages, PagesOf(step, tokens_per_page));
    max_query_tokens_ = std::max(max_query_tokens_, step.num_tokens);
    max_kv_tokens_ = std::max(max_kv_tokens_, step.first_position + step.num_tokens);
  }
  page_table_stride_ = most_pages;
  DUNLIN_CHECK(static_cast<size_t>(batch.num_sequences) * static_cast<size_t>(most_pages) <= page_table_.size(),
               "a sub-batch exceeds the planned page table");

  for (int32_t i = 0; i < batch.num_sequences; ++i) {
    const int32_t sequence_index = batch.first_sequence + i;
    const SequenceStep& step = plan.sequences[static_cast<size_t>(sequence_index)];
    spans_.push_back({.query_start = num_tokens_,
                      .query_len = step.num_tokens,
                      .first_position = step.first_position,
                      .page_table_row = i});
    const auto num_pages = static_cast<size_t>(PagesOf(step, tokens_per_page));
    DUNLIN_CHECK(step.sequence->pages.size() >= num_pages, "a planned token has no page");
    std::copy_n(step.sequence->pages.begin(), num_pages, page_table_.begin() + i * page_table_stride_);
    StageHeadRows(step, sequence_index);
    StageTokens(step, tokens_per_page);
  }
  DUNLIN_CHECK(num_tokens_ == batch.num_tokens, "a sub-batch miscounts its tokens");
}

void StepInputs::StageTokens(const SequenceStep& step, int32_t tokens_per_page) {
  const Sequence& sequence = *step.sequence;
  DUNLIN_CHECK(step.first_position + step.num_tokens <= sequence.num_tokens(), "a planned token is not known yet");
  DUNLIN_CHECK(num_tokens_ + step.num_tokens <= max_tokens_, "a sub-batch miscounts its tokens");
  for (int32_t i = 0; i < step.num_tokens; ++i) {
    const int32_t position = step.first_position + i;
    host_array(0)[num_tokens_] = sequence.tokens[static_cast<size_t>(position)];
    host_array(1)[num_tokens_] = position;
    host_array(2)[num_tokens_] = sequence.pages[static_cast<size_t>(position / tokens_per_page)];
    host_array(3)[num_tokens_] = position % tokens_per_page;
    ++num_tokens_;
  }
}

void StepInputs::StageHeadRows(const SequenceStep& step, int32_t sequence_index) {
  const Sequence& sequence = *step.sequence;
  const int32_t end = step.first_position + step.num_tokens;
  if (sequence.request.sampling.prompt_logprobs >= 0) {
    // The row of position p - 1 scores token p. What an earlier run of a preempted sequence scored stays scored.
    const int32_t first = std::max(sequence.scored_prompt, step.first_position + 1);
    const int32_t last = std::min(end, sequence.prompt_len - 1);
    for (int32_t position = first; position <= last; ++position) {
      AddHeadRow(num_tokens_ + position - 1 - step.first_position, {sequence_index, position});
    }
  }
  if (step.samples) AddHeadRow(num_tokens_ + step.num_tokens - 1, {sequence_index, -1});
}

void StepInputs::AddHeadRow(int32_t row, HeadRow head_row) {
  DUNLIN_CHECK(head_rows_.size() < head_rows_.capacity(), "more head rows than tokens");
  host_array(4)[head_rows_.size()] = row;
  head_rows_.push_back(head_row);
}

kernels::KernelStatus StepInputs::Upload(StepBuffers* buffers) {
  const kernels::Device& device = *buffers->device();
  auto* indices = static_cast<int32_t*>(buffers->at(BufferId::kIndices));
  auto* spans = static_cast<kernels::SequenceSpan*>(buffers->at(BufferId::kSpans));
  auto* page_table = static_cast<int32_t*>(buffers->at(BufferId::kPageTable));
  const auto copy = [&device](void* to, const void* from, size_t bytes) {
    return bytes == 0 ? kernels::KernelStatus::kOk : device.ops->copy_to_device(device.context, to, from, bytes);
  };
  for (int array = 0; array < kNumArrays; ++array) {
    const size_t count = array == kNumArrays - 1 ? head_rows_.size() : static_cast<size_t>(num_tokens_);
    const auto status = copy(indices + array * max_tokens_, host_array(array), count * sizeof(int32_t));
    if (status != kernels::KernelStatus::kOk) return status;
  }
  const auto status = copy(spans, spans_.data(), spans_.size() * sizeof(kernels::SequenceSpan));
  if (status != kernels::KernelStatus::kOk) return status;
  device_indices_ = indices;
  device_spans_ = spans;
  device_page_table_ = page_table;
  return copy(page_table, page_table_.data(),
              spans_.size() * static_cast<size_t>(page_table_stride_) * sizeof(int32_t));
}

}  // namespace dunlin::engine
