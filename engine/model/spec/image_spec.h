// SPDX-License-Identifier: Apache-2.0
// An encoder of images as data: the patches that it reads in place of tokens, and the projector that makes rows of a
// decoder's first layer of what its layers give. Source: transformers 5.24, models/mistral3.
#pragma once

#include <cstdint>

#include "kernels/api/layer_ops.h"

namespace dunlin::engine {

inline constexpr int32_t kImageChannels = 3;

// Each merge x merge neighbouring patches give one row: Down(activation(Up(Merge(Norm(x))))), Norm an RMSNorm of each
// patch, Merge a matrix over the normed patches one after another.
struct ImageSpec {
  int32_t patch_size = 0;       // pixels of a side; 0: the model reads tokens
  int32_t merge = 1;            // patches of a side of what becomes one row
  int32_t out_dim = 0;          // elements of such a row: the decoder's hidden_dim
  float norm_epsilon = 1e-5F;   // > 0, of the projector's norm
  bool projector_bias = false;  // of Up and Down
  kernels::ActivationKind activation = kernels::ActivationKind::kGeluErf;
  // RotarySpec's frequencies before this one are of a patch's row, the others of its column.
  int32_t num_row_frequencies = 0;

  // Elements of a patch, by channel, y and x.
  int32_t patch_features() const { return kImageChannels * patch_size * patch_size; }
  int32_t patches_per_row() const { return merge * merge; }
  // Of out_dim what a patch takes of a buffer that has rows for patches.
  int32_t out_features_per_patch() const { return (out_dim + patches_per_row() - 1) / patches_per_row(); }
};

}  // namespace dunlin::engine
