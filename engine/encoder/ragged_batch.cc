// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/ragged_batch.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

int32_t PagesOf(const BatchInput& input, int32_t tokens_per_page) {
  return (input.num_tokens + tokens_per_page - 1) / tokens_per_page;
}

}  // namespace

RaggedBatch::RaggedBatch(const ModelConfig& config, const MemoryPlan& plan, std::vector<float> patch_positions)
    : keeps_one_row_((config.attention.causal || config.attention.window(config.num_layers - 1) == 0) &&
                     !config.is_image_encoder()),
      causal_(config.attention.causal),
      first_token_(plan.first_token),
      position_offset_(config.embedding.position_offset),
      position_pad_id_(config.embedding.position_pad_id),
      last_token_type_(config.embedding.num_token_types > 1 ? 1 : 0),
      max_tokens_(plan.max_tokens_per_step),
      indices_(static_cast<size_t>(kNumArrays) * static_cast<size_t>(plan.max_tokens_per_step)),
      page_table_(plan[BufferId::kPageTable] / sizeof(int32_t)) {
  DUNLIN_CHECK(plan[BufferId::kIndices] >= indices_.size() * sizeof(int32_t),
               "the memory plan has no room for the arrays of a ragged batch");
  spans_.reserve(static_cast<size_t>(plan.max_sequences));
  pooled_spans_.reserve(static_cast<size_t>(plan.max_sequences));
  if (config.is_image_encoder()) images_.emplace(config, plan, std::move(patch_positions));
}

void RaggedBatch::Stage(const EncodeBatch& batch, int32_t tokens_per_page) {
  DUNLIN_CHECK(batch.num_tokens <= max_tokens_ && batch.inputs.size() <= spans_.capacity(),
               "a batch exceeds the memory plan");
  num_tokens_ = 0;
  spans_.clear();
  pooled_spans_.clear();
  max_input_tokens_ = 0;
  int32_t most_pages = 0;
  for (const BatchInput& input : batch.inputs) {
    most_pages = std::max(most_pages, PagesOf(input, tokens_per_page));
    max_input_tokens_ = std::max(max_input_tokens_, input.num_tokens);
  }
  page_table_stride_ = most_pages;
  int32_t next_page = 0;
  if (images_.has_value()) images_->Clear();
  for (const BatchInput& input : batch.inputs) {
    const int32_t row = num_inputs();
    spans_.push_back(
        {.query_start = num_tokens_, .query_len = input.num_tokens, .first_position = 0, .page_table_row = row});
    const int32_t num_pages = PagesOf(input, tokens_per_page);
    for (int32_t page = 0; page < num_pages; ++page) {
      page_table_[static_cast<size_t>(row * page_table_stride_ + page)] = next_page + page;
    }
    StageInput(input, next_page, tokens_per_page);
    if (images_.has_value()) images_->Add(input.patches, input.grid);
    next_page += num_pages;
  }
  DUNLIN_CHECK(num_tokens_ == batch.num_tokens, "a batch's num_tokens differs from the sum over its inputs");
  if (!keeps_one_row_) return;
  const bool has_mean = std::any_of(batch.inputs.begin(), batch.inputs.end(),
                                    [](const BatchInput& input) { return input.pooling == Pooling::kMean; });
  for (size_t i = 0; !has_mean && i < batch.inputs.size(); ++i) StagePooledRow(batch.inputs[i], i);
}

// Without a causal mask a row's position among the keys has no effect; the span's end says how many keys it sees.
void RaggedBatch::StagePooledRow(const BatchInput& input, size_t index) {
  const auto row = static_cast<int32_t>(index);
  const int32_t last = input.num_tokens - 1;
  const int32_t pooled = input.pooling == Pooling::kCls ? 0 : last;
  host_array(kPooledRows)[row] = spans_[index].query_start + pooled;
  pooled_spans_.push_back(
      {.query_start = row, .query_len = 1, .first_position = causal_ ? pooled : last, .page_table_row = row});
}

void RaggedBatch::StageInput(const BatchInput& input, int32_t first_page, int32_t tokens_per_page) {
  int32_t position = position_offset_;
  for (int32_t i = 0; i < input.num_tokens; ++i) {
    const TokenId token = images_.has_value() ? first_token_ : input.tokens[i];
    const bool is_pad = token == position_pad_id_;
    host_array(kTokenIds)[num_tokens_] = token - first_token_;
    host_array(kPositions)[num_tokens_] = is_pad ? position_offset_ - 1 : position++;
    host_array(kTokenTypes)[num_tokens_] = i < input.first_length ? 0 : last_token_type_;
    host_array(kPages)[num_tokens_] = first_page + i / tokens_per_page;
    host_array(kSlots)[num_tokens_] = i % tokens_per_page;
    ++num_tokens_;
  }
}

PassInputs RaggedBatch::pass_inputs() const {
  const int32_t count = num_inputs();
  PassInputs inputs{.num_tokens = num_tokens_,
                    .token_ids = device_array(kTokenIds),
                    .positions = device_array(kPositions),
                    .token_types = device_array(kTokenTypes),
                    .token_page = device_array(kPages),
                    .token_slot = device_array(kSlots),
                    .spans = {device_spans_, count, 0, max_input_tokens_, max_input_tokens_},
                    .chunk_spans = {},
                    .page_table = device_page_table_,
                    .page_table_stride = page_table_stride_,
                    .state_parts = {},
                    .kept = {}};
  inputs.kept.count = num_rows();
  if (pools_one_row()) {
    inputs.kept.index = device_array(kPooledRows);
    inputs.kept.spans = {device_spans_ + count, count, count, 1, max_input_tokens_};
  }
  return inputs;
}

kernels::KernelStatus RaggedBatch::Upload(StepBuffers* buffers) {
  const kernels::Device& device = *buffers->device();
  auto* indices = static_cast<int32_t*>(buffers->at(BufferId::kIndices));
  auto* spans = static_cast<kernels::SequenceSpan*>(buffers->at(BufferId::kSpans));
  auto* page_table = static_cast<int32_t*>(buffers->at(BufferId::kPageTable));
  const auto copy = [&device](void* to, const void* from, size_t bytes) {
    return bytes == 0 ? kernels::KernelStatus::kOk : device.ops->copy_to_device(device.context, to, from, bytes);
  };
  if (images_.has_value()) {
    if (const auto status = images_->Upload(buffers); status != kernels::KernelStatus::kOk) return status;
  }
  const int arrays = pools_one_row() ? kNumArrays : kPooledRows;
  for (int array = 0; array < arrays; ++array) {
    const auto status =
        copy(indices + array * max_tokens_, host_array(array), static_cast<size_t>(num_tokens_) * sizeof(int32_t));
    if (status != kernels::KernelStatus::kOk) return status;
  }
  for (const auto* part : {&spans_, &pooled_spans_}) {
    const auto status = copy(part == &spans_ ? spans : spans + spans_.size(), part->data(),
                             part->size() * sizeof(kernels::SequenceSpan));
    if (status != kernels::KernelStatus::kOk) return status;
  }
  device_indices_ = indices;
  device_spans_ = spans;
  device_page_table_ = page_table;
  return copy(page_table, page_table_.data(),
              spans_.size() * static_cast<size_t>(page_table_stride_) * sizeof(int32_t));
}

}  // namespace dunlin::engine
