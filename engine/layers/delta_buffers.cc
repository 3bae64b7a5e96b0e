// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/delta_buffers.h"

#include "engine/layers/buffer_cut.h"

namespace dunlin::engine {
namespace {

DeltaBuffers PlaceDelta(const ModelConfig& config, int64_t tokens, BufferCut* cut) {
  const DeltaSpec& delta = config.delta;
  const int64_t own_decays = delta.decays_by_channel() ? tokens : 0;
  const int64_t own_z = delta.gate_rank > 0 ? tokens : 0;
  return {.gates = cut->Take<float>(tokens * delta.gate_features()),
          .decay = cut->Take<float>(own_decays * delta.decay_features()),
          .z = cut->Take<float>(own_z * delta.output_features()),
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
