// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/delta_buffers.h"

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {
namespace {

DeltaBuffers PlaceDelta(const ModelConfig& config, int64_t tokens, BufferCut* cut) {
  const DeltaSpec& delta = config.delta;
  return {.gates = cut->Take<float>(tokens * 2 * delta.shape.value_heads),
          .mixed = cut->Take<float>(tokens * delta.channels()),
          .scan = cut->Take<float>(tokens * delta.output_features())};
}

}  // namespace

size_t DeltaBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (config.delta.shape.key_heads == 0) return 0;
  BufferCut cut(nullptr);
  (void)PlaceDelta(config, max_tokens, &cut);
  return cut.taken();
}

DeltaBuffers PlaceDeltaBuffers(const ModelConfig& config, int32_t max_tokens, void* memory) {
  BufferCut cut(memory);
  return PlaceDelta(config, max_tokens, &cut);
}

}  // namespace dunlin::engine
