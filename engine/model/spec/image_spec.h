// SPDX-License-Identifier: Apache-2.0
// An encoder of images as data: the patches that it reads in place of tokens, and the projector that makes rows of a
// decoder's first layer of what its layers give. Source: transformers 5.24, models/mistral3, models/qwen3_5.
#pragma once

#include <cstdint>

#include "kernels/api/layer_ops.h"

namespace dunlin::engine {

inline constexpr int32_t kImageChannels = 3;

// Each merge x merge neighbouring patches give one row: Down(activation(Up(Merge(Norm(x))))), Norm a norm of each
// patch, of the layers' kind, Merge a matrix over the normed patches one after another or, without merge_matrix, those
// as they are.
struct ImageSpec {
  int32_t patch_size = 0;       // pixels of a side; 0: the model reads tokens
  int32_t merge = 1;            // patches of a side of what becomes one row
  int32_t projector_dim = 0;    // elements between Up and Down
  int32_t out_dim = 0;          // elements of such a row: the decoder's hidden_dim
  float norm_epsilon = 1e-5F;   // > 0, of the projector's norm
  bool projector_bias = false;  // of Up and Down
  bool merge_matrix = true;
  kernels::ActivationKind activation = kernels::ActivationKind::kGeluErf;
  // RotarySpec's frequencies before this one are of a patch's row, the others of its column.
  int32_t num_row_frequencies = 0;
  // Frames of a video that the patches' matrix reads at once: of a still image equal ones.
  int32_t num_frames = 1;
  bool patch_bias = false;  // of that matrix
  // Rows and columns of a table of positions that are added to the patches' rows, resampled to an image's grid; 0:
  // there is none.
  int32_t position_side = 0;

  // Elements of a patch, by channel, y and x.
  int32_t patch_features() const { return kImageChannels * patch_size * patch_size; }
  // Of an input of the patches' matrix, by channel, frame, y and x.
  int32_t patch_inputs() const { return num_frames * patch_features(); }
  int32_t patches_per_row() const { return merge * merge; }
  // Of out_dim, and of projector_dim, what a patch takes of a buffer that has rows for patches.
  int32_t out_features_per_patch() const { return (out_dim + patches_per_row() - 1) / patches_per_row(); }
  int32_t projector_features_per_patch() const { return (projector_dim + patches_per_row() - 1) / patches_per_row(); }
};

}  // namespace dunlin::engine
