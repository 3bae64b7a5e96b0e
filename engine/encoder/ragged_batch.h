// SPDX-License-Identifier: Apache-2.0
// A batch of inputs as flat arrays: the tokens or patches of all inputs one after another, without padding. Each input
// has its own pages, in order, which every layer overwrites with its keys and values.
// Staged in host memory reserved at construction, then copied to the device; neither step allocates.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/encoder/image_inputs.h"
#include "engine/layers/pass_inputs.h"
#include "engine/model/spec/model_config.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/attention.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

// One input of a batch and where its vector goes, or the rows of an image.
struct BatchInput {
  const TokenId* tokens = nullptr;   // [num_tokens]; null of an image
  int32_t num_tokens = 0;            // >= 1, or patches
  int32_t first_length = INT32_MAX;  // tokens from here on have type 1
  const float* patches = nullptr;    // [num_tokens, patch_features] of an image
  ImageGrid grid = {};
  float* vector = nullptr;  // [dimensions], of an image [num_tokens / patches_per_row, dimensions]
  int32_t dimensions = 0;
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  bool finite = true;  // set by the runtime: false when a pooled hidden state, or a row, was not
};

// Inputs of one profile. `inputs` is reserved at start and reused.
struct EncodeBatch {
  ExecutionProfile profile;
  bool classify = false;  // a vector is the logits of its input; pooling is what the head reads, kCls or kMean
  std::vector<BatchInput> inputs;
  int32_t num_tokens = 0;
};

class RaggedBatch {
 public:
  // plan: of PlanEncoderMemory for this config. patch_positions: the table of an image encoder that has one.
  RaggedBatch(const ModelConfig& config, const MemoryPlan& plan, std::vector<float> patch_positions = {});

  // REQUIRES: the batch fits the plan.
  void Stage(const EncodeBatch& batch, int32_t tokens_per_page);
  // Copies the staged arrays into kIndices, kSpans and kPageTable; of images what ImageInputs has, too. The
  // patches are read from the batch's inputs.
  kernels::KernelStatus Upload(StepBuffers* buffers);

  // What a forward pass reads, valid after Upload until the next Stage. Where every input is pooled from one row, those
  // rows are kept: row i for input i. Otherwise, or where the last layer has a window to both sides, all rows are.
  PassInputs pass_inputs() const;

  // The rows of the pass's hidden states that an input is pooled from: those of all its tokens, or one.
  int32_t first_row(size_t input) const {
    return pools_one_row() ? static_cast<int32_t>(input) : spans_[input].query_start;
  }
  int32_t num_rows(size_t input) const { return pools_one_row() ? 1 : spans_[input].query_len; }
  int32_t num_rows() const { return pools_one_row() ? num_inputs() : num_tokens_; }

 private:
  enum Array : uint8_t { kTokenIds, kPositions, kTokenTypes, kPages, kSlots, kPooledRows, kNumArrays };

  bool pools_one_row() const { return !pooled_spans_.empty(); }
  int32_t num_inputs() const { return static_cast<int32_t>(spans_.size()); }
  int32_t* host_array(int array) { return indices_.data() + array * max_tokens_; }
  const int32_t* device_array(int array) const { return device_indices_ + array * max_tokens_; }
  void StageInput(const BatchInput& input, int32_t first_page, int32_t tokens_per_page);
  void StagePooledRow(const BatchInput& input, size_t index);

  // Whether a row can be computed alone by the last layer: with a window to both sides, the keys that it sees follow
  // from its position, which a span gives only together with its input's end.
  const bool keeps_one_row_;
  const bool causal_;
  const int32_t first_token_;  // MemoryPlan's
  const int32_t position_offset_;
  const TokenId position_pad_id_;
  const int32_t last_token_type_;  // 1, or 0 where the model has no other
  const int64_t max_tokens_;
  int32_t num_tokens_ = 0;
  int64_t page_table_stride_ = 0;
  int32_t max_input_tokens_ = 0;  // of one input
  std::vector<int32_t> indices_;  // [kNumArrays, max_tokens]
  std::vector<kernels::SequenceSpan> spans_;
  std::vector<kernels::SequenceSpan> pooled_spans_;  // [num_inputs] where one row of each input is kept, or empty
  std::vector<int32_t> page_table_;
  std::optional<ImageInputs> images_;  // of an encoder of images
  const int32_t* device_indices_ = nullptr;
  const kernels::SequenceSpan* device_spans_ = nullptr;
  const int32_t* device_page_table_ = nullptr;
};

}  // namespace dunlin::engine
