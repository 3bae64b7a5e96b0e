// SPDX-License-Identifier: Apache-2.0
// The device memory of a layer's experts, cut out of one block. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"
#include "kernels/api/experts.h"

namespace dunlin::engine {

// T = max_tokens, C = routing.num_chosen. An expert's rows are gathered, computed and added to the residual before
// those of the next, so that no buffer has more than T rows, however many experts a row takes.
struct ExpertBuffers {
  float* normed = nullptr;    // [T, hidden_dim] the rows that the experts and the router read
  float* gathered = nullptr;  // [T, hidden_dim] those of one expert
  float* output = nullptr;    // [T, hidden_dim] what it makes of them
  float* logits = nullptr;    // [T, router_features]
  int32_t* chosen = nullptr;  // RouteExpertsParams, as what follows
  float* chosen_weights = nullptr;
  int32_t* rows = nullptr;                 // [T * C]
  float* weights = nullptr;                // [T * C]
  kernels::ExpertRows* experts = nullptr;  // [num_experts]
};

// 0 for a model without experts.
size_t ExpertBufferBytes(const ModelConfig& config, int32_t max_tokens);

// memory: ExpertBufferBytes, 64-byte aligned.
ExpertBuffers PlaceExpertBuffers(const ModelConfig& config, int32_t max_tokens, void* memory);

}  // namespace dunlin::engine
