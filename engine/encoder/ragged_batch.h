// A batch of inputs as flat arrays: the tokens of all of them one after another, no row for padding. Keys and values of
// a layer lie in pages that every layer writes anew; each input has pages of its own, in order.
// Staged in host memory that is reserved at construction, then copied to the device; neither step allocates.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/model/model_config.h"
#include "engine/runtime/layer_rows.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/attention.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

// One input of a batch and where its vector goes.
struct BatchInput {
  const TokenId* tokens = nullptr;  // [num_tokens]
  int32_t num_tokens = 0;           // >= 1
  float* vector = nullptr;          // [dimensions]
  int32_t dimensions = 0;
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  bool finite = true;  // set by the runtime: false when a hidden state it pooled was not
};

// Inputs of one profile. Vectors are reserved at start and reused.
struct EncodeBatch {
  ExecutionProfile profile;
  std::vector<BatchInput> inputs;
  int32_t num_tokens = 0;
};

class RaggedBatch {
 public:
  // plan: of PlanEncoderMemory, for this config.
  RaggedBatch(const ModelConfig& config, const MemoryPlan& plan);

  // REQUIRES: the batch fits the plan.
  void Stage(const EncodeBatch& batch, int32_t tokens_per_page);
  // Copies what is staged into kIndices, kSpans and kPageTable.
  kernels::KernelStatus Upload(StepBuffers* buffers);

  int32_t num_tokens() const { return num_tokens_; }
  int32_t num_inputs() const { return static_cast<int32_t>(spans_.size()); }
  QuerySpans query_spans() const { return {spans(), num_inputs(), max_input_tokens_, max_input_tokens_}; }
  // Where every input is pooled from one row: those rows as a call of attention of their own, row i of the queries for
  // input i. Then the last layer need not go on with the others.
  bool pools_one_row() const { return !pooled_spans_.empty(); }
  QuerySpans pooled_spans() const { return {device_spans_ + num_inputs(), num_inputs(), 1, max_input_tokens_}; }
  // The rows that an input is pooled from, of what EncoderPass leaves: all of its tokens', or one.
  int32_t first_row(size_t input) const {
    return pools_one_row() ? static_cast<int32_t>(input) : spans_[input].query_start;
  }
  int32_t num_rows(size_t input) const { return pools_one_row() ? 1 : spans_[input].query_len; }
  int32_t num_rows() const { return pools_one_row() ? num_inputs() : num_tokens_; }
  int64_t page_table_stride() const { return page_table_stride_; }

  // Device arrays, valid after Upload.
  const int32_t* token_ids() const { return device_array(kTokenIds); }      // [num_tokens]
  const int32_t* positions() const { return device_array(kPositions); }     // [num_tokens] rows of the position table
  const int32_t* token_types() const { return device_array(kTokenTypes); }  // [num_tokens] zeros
  const int32_t* token_page() const { return device_array(kPages); }        // [num_tokens] page id
  const int32_t* token_slot() const { return device_array(kSlots); }        // [num_tokens] index in the page
  const int32_t* pooled_rows() const { return device_array(kPooledRows); }  // [num_inputs] where pools_one_row
  const kernels::SequenceSpan* spans() const { return device_spans_; }      // [num_inputs]
  const int32_t* page_table() const { return device_page_table_; }          // [num_inputs, page_table_stride]

 private:
  enum Array : uint8_t { kTokenIds, kPositions, kTokenTypes, kPages, kSlots, kPooledRows, kNumArrays };

  int32_t* host_array(int array) { return indices_.data() + array * max_tokens_; }
  const int32_t* device_array(int array) const { return device_indices_ + array * max_tokens_; }
  void StageInput(const BatchInput& input, int32_t first_page, int32_t tokens_per_page);
  void StagePooledRow(const BatchInput& input, size_t index);

  const int32_t position_offset_;
  const TokenId position_pad_id_;
  const int64_t max_tokens_;
  int32_t num_tokens_ = 0;
  int64_t page_table_stride_ = 0;
  int32_t max_input_tokens_ = 0;  // of one input
  std::vector<int32_t> indices_;  // [kNumArrays, max_tokens]
  std::vector<kernels::SequenceSpan> spans_;
  std::vector<kernels::SequenceSpan> pooled_spans_;  // as many where pools_one_row, or none
  std::vector<int32_t> page_table_;
  const int32_t* device_indices_ = nullptr;
  const kernels::SequenceSpan* device_spans_ = nullptr;
  const int32_t* device_page_table_ = nullptr;
};

}  // namespace dunlin::engine
