// SPDX-License-Identifier: Apache-2.0
// The device memory of an indexer, cut out of one block. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// T = max_tokens, C = max_context, in tokens.
struct IndexerBuffers {
  float* queries = nullptr;      // [T, query_features]
  float* keys = nullptr;         // [T, dim]
  float* weights = nullptr;      // [T, num_heads], not by blocks
  float* scores = nullptr;       // [kSelectionRows, C]
  uint32_t* selected = nullptr;  // [T, num_choices, SelectionWords(C)], of the last layer that chose keys
};

// Words of a choice of KeySelection::bits.
constexpr int64_t SelectionWords(int32_t max_context) {
  return (int64_t{max_context} + 31) / 32;
}

// 0 for a model without an indexer.
size_t IndexerBufferBytes(const ModelConfig& config, int32_t max_tokens, int32_t max_context);

// memory: IndexerBufferBytes, 64-byte aligned.
IndexerBuffers PlaceIndexerBuffers(const ModelConfig& config, int32_t max_tokens, int32_t max_context, void* memory);

}  // namespace dunlin::engine
