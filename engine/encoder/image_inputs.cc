// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/image_inputs.h"

#include <cmath>

#include "engine/base/check.h"

namespace dunlin::engine {

ImageInputs::ImageInputs(const ModelConfig& config, const MemoryPlan& plan)
    : image_(config.image),
      max_patches_(static_cast<size_t>(plan.max_tokens_per_step)),
      num_frequencies_(config.rotary.dim / 2),
      cos_sin_(max_patches_ * static_cast<size_t>(config.rotary.dim)) {
  images_.reserve(static_cast<size_t>(plan.max_sequences));
  // A grid has at least `merge` of the other side.
  const int32_t num_positions = plan.max_context_tokens / image_.merge;
  for (int32_t position = 0; position < num_positions; ++position) {
    for (const float frequency : config.rotary.inv_freq) {
      const double angle = position * static_cast<double>(frequency);
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void ImageInputs::Clear() {
  images_.clear();
  num_patches_ = 0;
}

void ImageInputs::Add(const float* patches, const ImageGrid& grid) {
  const auto count = static_cast<int32_t>(grid.num_patches());
  DUNLIN_CHECK(images_.size() < images_.capacity() && static_cast<size_t>(num_patches_ + count) <= max_patches_,
               "a batch of images exceeds the memory plan");
  images_.push_back({patches, count});
  const int64_t rotary_dim = int64_t{2} * num_frequencies_;
  float* out = cos_sin_.data() + num_patches_ * rotary_dim;
  for (int32_t patch = 0; patch < count; ++patch, out += rotary_dim) {
    const PatchPlace place = PlaceOf(grid, image_.merge, patch);
    for (int32_t i = 0; i < num_frequencies_; ++i) {
      const int64_t position = i < image_.num_row_frequencies ? place.row : place.column;
      const auto at = static_cast<size_t>(position * num_frequencies_ + i);
      out[i] = cosines_[at];
      out[num_frequencies_ + i] = sines_[at];
    }
  }
  num_patches_ += count;
}

kernels::KernelStatus ImageInputs::Upload(StepBuffers* buffers) const {
  const kernels::Device& device = *buffers->device();
  float* to = buffers->floats(BufferId::kQkv);
  for (const Image& image : images_) {
    const size_t count = static_cast<size_t>(image.num_patches) * static_cast<size_t>(image_.patch_features());
    const auto status = device.ops->copy_to_device(device.context, to, image.patches, count * sizeof(float));
    if (status != kernels::KernelStatus::kOk) return status;
    to += count;
  }
  const size_t count = static_cast<size_t>(num_patches_) * 2 * static_cast<size_t>(num_frequencies_);
  return device.ops->copy_to_device(device.context, buffers->floats(BufferId::kRotary), cos_sin_.data(),
                                    count * sizeof(float));
}

}  // namespace dunlin::engine
