// SPDX-License-Identifier: Apache-2.0
// What a batch of images has in place of tokens: the patches, their positions where the model has learned ones, and the
// rotation of each by its row and its column.
// Host memory is reserved at construction; staging does not allocate. Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/patch_positions.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/image_grid.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

class ImageInputs {
 public:
  // plan: of PlanEncoderMemory for this config, an image encoder's. positions: its table; empty where it has none.
  ImageInputs(const ModelConfig& config, const MemoryPlan& plan, std::vector<float> positions);

  void Clear();
  // Adds an image: patches [grid.num_patches(), patch_features], borrowed until Upload. REQUIRES: it fits the plan.
  void Add(const float* patches, const ImageGrid& grid);
  // Copies the patches into kQkv, once for each frame, the positions into kHidden and the rotations into kRotary.
  kernels::KernelStatus Upload(StepBuffers* buffers);

 private:
  struct Image {
    const float* patches;
    ImageGrid grid;
  };
  kernels::KernelStatus UploadPatches(const Image& image, const kernels::Device& device, float* to);
  // Copies a row of `columns` for each patch: fill(patch, row) writes it.
  template <typename Fill>
  kernels::KernelStatus UploadStaged(const kernels::Device& device, const ImageGrid& grid, int64_t columns,
                                     const Fill& fill, float* to);

  const ImageSpec image_;
  const size_t max_patches_;
  const int32_t num_frequencies_;
  const PatchPositions positions_;
  std::vector<Image> images_;
  int32_t num_patches_ = 0;
  std::vector<float> staged_;  // rows of a few patches
  // [rows or columns that a grid may have, num_frequencies] of a position's angles.
  std::vector<float> cosines_;
  std::vector<float> sines_;
  std::vector<float> cos_sin_;  // RotaryTableParams::cos_sin of the batch
};

}  // namespace dunlin::engine
