// SPDX-License-Identifier: Apache-2.0
// What a model requires of a device (DeviceOps::supports_model).
#pragma once

#include <algorithm>

#include "engine/model/spec/model_config.h"
#include "kernels/api/model_traits.h"

namespace dunlin::engine {

inline kernels::ModelTraits ModelTraitsOf(const ModelConfig& config) {
  return {.experts = config.has_experts(),
          .experts_beside_mlp = config.experts.beside_mlp,
          .latent_rows = config.attention.is_latent(),
          .key_selection = config.attention.has_indexer(),
          .block_selection = config.attention.has_indexer() && config.attention.indexer.by_blocks(),
          .compressed_keys = config.attention.is_compressed(),
          .residual_streams = config.has_streams(),
          .token_experts = !config.experts.by_token.empty(),
          .value_norms = config.attention.value_norm,
          .shared_kv = !config.attention.kv_sources.empty(),
          .row_factors = config.layer_factor,
          .row_decays = config.delta.decays_by_channel(),
          .state_rows = std::max(config.delta.shape.key_dim, config.mamba.shape.state_dim)};
}

}  // namespace dunlin::engine
