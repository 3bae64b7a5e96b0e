// SPDX-License-Identifier: Apache-2.0
// The norms over all heads together (AttentionSpec::qk_norm_joint) of a divided model, whose ranks have some of the
// heads: a rank normalises whole rows of some tokens, in the order of an undivided model's sums.
#pragma once

#include <cstdint>

#include "engine/layers/layer_context.h"

namespace dunlin::engine {

// In place, of the running layer's rows in `qkv`, `stride` floats apart: the rank's heads of queries and, where the
// layer has keys of its own, of these. REQUIRES: the model is divided.
bool NormJointly(LayerContext* context, const LayerWeights& weights, float* qkv, int64_t stride);

}  // namespace dunlin::engine
