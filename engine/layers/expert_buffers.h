// SPDX-License-Identifier: Apache-2.0
// The device memory of a layer's experts, cut out of one block. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"
#include "kernels/api/experts.h"

namespace dunlin::engine {

// T = max_tokens, C = routing.num_chosen. The rows of all experts, grouped by expert, are T * C.
struct ExpertBuffers {
  float* normed = nullptr;    // [T, hidden_dim] the rows that the experts and the router read
  float* latent = nullptr;    // [T, latent_dim] what the experts read in place of them; then their sum
  float* scaled = nullptr;    // [T, hidden_dim] normed rows times their weights, with ExpertSpec::scaled_inputs
  float* output = nullptr;    // [T * C, expert_dim] what the experts make of them; [T, hidden_dim] of the shared one
  float* logits = nullptr;    // [T, router_features]
  int32_t* chosen = nullptr;  // RouteExpertsParams, as what follows
  float* chosen_weights = nullptr;
  int32_t* rows = nullptr;                 // [T * C]
  float* weights = nullptr;                // [T * C]
  int32_t* places = nullptr;               // [T, C]
  kernels::ExpertRows* experts = nullptr;  // [num_experts]
};

// 0 for a model without experts.
size_t ExpertBufferBytes(const ModelConfig& config, int32_t max_tokens);

// Rows of all experts of a batch of num_tokens; 0 for a model without experts.
int64_t NumExpertRows(const ModelConfig& config, int32_t num_tokens);

// memory: ExpertBufferBytes, 64-byte aligned.
ExpertBuffers PlaceExpertBuffers(const ModelConfig& config, int32_t max_tokens, void* memory);

}  // namespace dunlin::engine
