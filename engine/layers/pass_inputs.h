// SPDX-License-Identifier: Apache-2.0
// The batch that a forward pass reads, as flat arrays in device memory. Plain data: StepInputs fills it for decoders,
// RaggedBatch for encoders. The arrays are borrowed until the device has finished the pass.
#pragma once

#include <cstdint>

#include "kernels/api/attention.h"

namespace dunlin::engine {

// Elements in host memory, borrowed until the pass has been enqueued.
template <typename Element>
struct HostList {
  const Element* first = nullptr;
  int32_t count = 0;
  const Element* begin() const { return first; }
  const Element* end() const { return first + count; }
  friend bool operator==(const HostList&, const HostList&) = default;
};

// The spans of one attention call; query row i belongs to hidden row i.
struct QuerySpans {
  const kernels::SequenceSpan* first = nullptr;  // [count], device memory
  int32_t count = 0;
  int32_t num_one_token = 0;     // the first of them, <= count, have one query row
  int32_t max_query_tokens = 0;  // of one span
  int32_t max_kv_tokens = 0;     // of one span
  friend bool operator==(const QuerySpans&, const QuerySpans&) = default;
};

// The rows that something reads after the layers (the head or the pooling). Once the last layer that stores keys and
// values has done so (ModelConfig::last_storing_layer), it and what follows compute these rows only.
struct KeptRows {
  const int32_t* index = nullptr;  // [count] rows of the batch; not read where `spans` is empty
  int32_t count = 0;               // 0: the pass ends with those keys and values
  int32_t num_decode = 0;          // the first of them, <= count, that run as decode (GemmParams::decode_rows)
  QuerySpans spans;                // of the kept rows, in their order; empty when every row of the batch is kept
  QuerySpans chunk_spans;          // as PassInputs has them, of these rows
  friend bool operator==(const KeptRows&, const KeptRows&) = default;
};

// Of a recurrent model's step: rows that go through states, one span of a sequence and the slot that they change. A
// part begins with its copies, of whole states or of a layer's part of them.
struct StateCopy {
  int32_t from = 0;  // slot, which no row of the part changes
  int32_t to = 0;
};
struct StatePart {
  const kernels::SequenceSpan* spans = nullptr;  // [count], device memory
  const int32_t* slots = nullptr;                // [count], device memory; distinct
  int32_t count = 0;
  const StateCopy* copies = nullptr;  // [num_copies], host memory
  int32_t num_copies = 0;
  friend bool operator==(const StatePart&, const StatePart&) = default;
};

// Parts in their order. Part i has, of each sequence with at least i StateCuts, the rows from cut i to
// the next one; part 0 those before the first.
using StateParts = HostList<StatePart>;

// Rows of the batch, next to each other, that PromptRows has in place of the embeddings of their tokens.
struct RowRun {
  const float* values = nullptr;  // [num_rows, hidden_dim], host memory
  // RotaryTableParams::cos_sin of the rows, [num_rows, RotarySpec::dim], host memory that is left alone until the pass
  // has ended; null: they rotate by `positions`.
  const float* rotations = nullptr;
  int32_t first_row = 0;  // of the batch
  int32_t num_rows = 0;   // >= 1
};

struct AdapterRows;  // adapter_rows.h

// A pass reads nothing else of its step from the host, so that two passes with equal inputs, without copies of states,
// adapters and rows of prompts enqueue the same operations (StepGraphs).
struct PassInputs {
  int32_t num_tokens = 0;
  int32_t num_decode_tokens = 0;         // the first of the tokens, which decode; the rest are prefill
  const int32_t* token_ids = nullptr;    // [num_tokens] of linked ranks counted from the first of the rank's embedding
  const int32_t* positions = nullptr;    // [num_tokens] row of the position table, or position of the rotation
  const int32_t* token_types = nullptr;  // [num_tokens] row of the type table; read where the model has one
  const int32_t* token_page = nullptr;   // [KvGroups::count, num_tokens] page id
  const int32_t* token_slot = nullptr;   // [num_tokens] index inside the page
  QuerySpans spans;                      // of the sequences, covering all tokens
  // Where layers have chunks of positions (AttentionSpec::chunked_windows): the spans, cut at the chunks' borders.
  // Their positions count from the start of the chunk, and page_table_row is the entry of a group's table, not the row,
  // that has its first page.
  QuerySpans chunk_spans;
  const int32_t* page_table = nullptr;  // [KvGroups::count, sequences, page_table_stride] page ids
  int64_t page_table_stride = 0;
  StateParts state_parts;  // where the model is recurrent; layer_state.h is how layers read them
  // Of a layer that predicts (predictor.h): [num_tokens] row of LayerBuffers::predictor_hidden of each; else null.
  const int32_t* hidden_rows = nullptr;
  HostList<RowRun> row_runs = {};  // ascending, disjoint; none of their rows decodes
  KeptRows kept;
  const AdapterRows* adapters = nullptr;  // null: no row has an adapter
  friend bool operator==(const PassInputs&, const PassInputs&) = default;
};

}  // namespace dunlin::engine
