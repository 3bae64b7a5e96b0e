// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/latent_buffers.h"

#include <algorithm>

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {
namespace {

LatentBuffers PlaceLatent(const ModelConfig& config, int64_t tokens, BufferCut* cut) {
  const LatentAttentionSpec& latent = config.attention.latent;
  return {.down = cut->Take<float>(tokens * std::max(latent.query_rank, latent.kv_rank)),
          .query = cut->Take<float>(tokens * config.attention.latent_query_features()),
          .values = cut->Take<float>(tokens * config.attention.output_features())};
}

}  // namespace

size_t LatentBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (!config.attention.is_latent()) return 0;
  BufferCut cut(nullptr);
  (void)PlaceLatent(config, max_tokens, &cut);
  return cut.taken();
}

LatentBuffers PlaceLatentBuffers(const ModelConfig& config, int32_t max_tokens, void* memory) {
  BufferCut cut(memory);
  return PlaceLatent(config, max_tokens, &cut);
}

}  // namespace dunlin::engine
