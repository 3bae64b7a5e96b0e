// SPDX-License-Identifier: Apache-2.0
// The rows of Mamba2 layers between their device operations, in LayerBuffers::mamba.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// T = max_tokens. The input projection's rows are in LayerBuffers::qkv (MambaLayer), the normed rows in
// LayerBuffers::attention.
struct MambaBuffers {
  float* mixed;  // [T, channels] after the convolution
  float* scan;   // [T, output_features]
  float* pair;   // [T, 2 * output_features] z and scan, with MambaNorm::kNone
};

// 0 where no layer is Mamba2.
size_t MambaBufferBytes(const ModelConfig& config, int32_t max_tokens);
// memory: of MambaBufferBytes, 64-byte aligned.
MambaBuffers PlaceMambaBuffers(const ModelConfig& config, int32_t max_tokens, void* memory);

}  // namespace dunlin::engine
