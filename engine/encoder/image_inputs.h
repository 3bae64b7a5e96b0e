// SPDX-License-Identifier: Apache-2.0
// What a batch of images has in place of tokens: the patches, and the rotation of each by its row and its column.
// Host memory is reserved at construction; staging does not allocate. Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/spec/model_config.h"
#include "engine/request/image_grid.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

class ImageInputs {
 public:
  // plan: of PlanEncoderMemory for this config, an image encoder's.
  ImageInputs(const ModelConfig& config, const MemoryPlan& plan);

  void Clear();
  // Adds an image: patches [grid.num_patches(), patch_features], borrowed until Upload. REQUIRES: it fits the plan.
  void Add(const float* patches, const ImageGrid& grid);
  // Copies the patches into kQkv and the rotations into kRotary.
  kernels::KernelStatus Upload(StepBuffers* buffers) const;

 private:
  struct Image {
    const float* patches;
    int32_t num_patches;
  };

  const ImageSpec image_;
  const size_t max_patches_;
  const int32_t num_frequencies_;
  std::vector<Image> images_;
  int32_t num_patches_ = 0;
  // [rows or columns that a grid may have, num_frequencies] of a position's angles.
  std::vector<float> cosines_;
  std::vector<float> sines_;
  std::vector<float> cos_sin_;  // RotaryTableParams::cos_sin of the batch
};

}  // namespace dunlin::engine
