// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/mamba_buffers.h"

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {
namespace {

MambaBuffers PlaceMamba(const ModelConfig& config, int64_t tokens, BufferCut* cut) {
  const bool gates_alone = config.mamba.norm == MambaNorm::kNone;
  return {.mixed = cut->Take<float>(tokens * config.mamba.channels()),
          .scan = cut->Take<float>(tokens * config.mamba.output_features()),
          .pair = gates_alone ? cut->Take<float>(2 * tokens * config.mamba.output_features()) : nullptr};
}

}  // namespace

size_t MambaBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (config.mamba.shape.num_heads == 0) return 0;
  BufferCut cut(nullptr);
  (void)PlaceMamba(config, max_tokens, &cut);
  return cut.taken();
}

MambaBuffers PlaceMambaBuffers(const ModelConfig& config, int32_t max_tokens, void* memory) {
  BufferCut cut(memory);
  return PlaceMamba(config, max_tokens, &cut);
}

}  // namespace dunlin::engine
