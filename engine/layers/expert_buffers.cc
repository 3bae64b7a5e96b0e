// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/expert_buffers.h"

#include <algorithm>

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {
namespace {

ExpertBuffers PlaceExperts(const ModelConfig& config, int64_t tokens, BufferCut* cut) {
  const int64_t hidden = tokens * config.hidden_dim;
  const int64_t chosen = NumExpertRows(config, static_cast<int32_t>(tokens));
  return {.normed = cut->Take<float>(hidden),
          .latent = cut->Take<float>(tokens * config.experts.latent_dim),
          .scaled = cut->Take<float>(config.experts.scaled_inputs ? hidden : 0),
          .output = cut->Take<float>(std::max(chosen * config.expert_dim(), hidden)),
          .logits = cut->Take<float>(tokens * config.experts.router_features()),
          .chosen = cut->Take<int32_t>(chosen),
          .chosen_weights = cut->Take<float>(chosen),
          .rows = cut->Take<int32_t>(chosen),
          .weights = cut->Take<float>(chosen),
          .places = cut->Take<int32_t>(chosen),
          .experts = cut->Take<kernels::ExpertRows>(config.experts.routing.num_experts)};
}

}  // namespace

size_t ExpertBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (!config.has_experts()) return 0;
  BufferCut cut(nullptr);
  (void)PlaceExperts(config, max_tokens, &cut);
  return cut.taken();
}

int64_t NumExpertRows(const ModelConfig& config, int32_t num_tokens) {
  return config.has_experts() ? int64_t{num_tokens} * config.experts.routing.num_chosen : 0;
}

ExpertBuffers PlaceExpertBuffers(const ModelConfig& config, int32_t max_tokens, void* memory) {
  BufferCut cut(memory);
  return PlaceExperts(config, max_tokens, &cut);
}

}  // namespace dunlin::engine
