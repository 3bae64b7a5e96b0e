// SPDX-License-Identifier: Apache-2.0
// The rows of gated delta nets between their device operations, in LayerBuffers::delta.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// T = max_tokens. The input projection's rows are in LayerBuffers::qkv, the gated rows in LayerBuffers::attention.
struct DeltaBuffers {
  float* gates;  // [T, gate_features]
  float* decay;  // [T, decay_features], where DeltaSpec::decays_by_channel()
  float* z;      // [T, output_features], as that
  float* mixed;  // [T, channels] after the convolution
  float* scan;   // [T, output_features]
};

// 0 where no layer is a gated delta net.
size_t DeltaBufferBytes(const ModelConfig& config, int32_t max_tokens);
// memory: of DeltaBufferBytes, 64-byte aligned.
DeltaBuffers PlaceDeltaBuffers(const ModelConfig& config, int32_t max_tokens, void* memory);

}  // namespace dunlin::engine
