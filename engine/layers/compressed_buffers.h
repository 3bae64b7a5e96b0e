// SPDX-License-Identifier: Apache-2.0
// The device memory of compressed attention, cut out of one block. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// T = max_tokens, E = NumEntries(max_context), of layers that choose.
struct CompressedBuffers {
  float* down = nullptr;           // [T, query_rank] the query's row before and after its norm
  float* groups = nullptr;         // [T, out_features] what the products of groups of heads give
  float* rows = nullptr;           // [T, 2 * series * dim] values and gates, of the widest
  float* index_queries = nullptr;  // [T, query_features]
  float* index_weights = nullptr;  // [T, num_heads]
  float* scores = nullptr;         // [kSelectionRows, E]
  uint32_t* selected = nullptr;    // [T, EntryWords]
};

// Entries of a context in layers that choose; 0: there are none.
int32_t NumEntries(const AttentionSpec& attention, int32_t max_context);
// Words of a row of SelectEntriesParams::selected.
constexpr int64_t EntryWords(int32_t num_entries) {
  return (int64_t{num_entries} + 31) / 32;
}

// 0 for a model without compressed attention.
size_t CompressedBufferBytes(const ModelConfig& config, int32_t max_tokens, int32_t max_context);

// memory: CompressedBufferBytes, 64-byte aligned.
CompressedBuffers PlaceCompressedBuffers(const ModelConfig& config, int32_t max_tokens, int32_t max_context,
                                         void* memory);

}  // namespace dunlin::engine
