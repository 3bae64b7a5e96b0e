// SPDX-License-Identifier: Apache-2.0
// The device memory of multi-head latent attention, cut out of one block. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// T = max_tokens.
struct LatentBuffers {
  float* down = nullptr;    // [T, max(query_rank, kv_rank)] the query's or the latent row before and after its norm
  float* query = nullptr;   // [T, latent_query_features]
  float* values = nullptr;  // [T, num_heads * value_dim] the output projection's input
};

// 0 for a model without latent attention.
size_t LatentBufferBytes(const ModelConfig& config, int32_t max_tokens);

// memory: LatentBufferBytes, 64-byte aligned.
LatentBuffers PlaceLatentBuffers(const ModelConfig& config, int32_t max_tokens, void* memory);

}  // namespace dunlin::engine
