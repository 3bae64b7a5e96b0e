// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/layer_scaling.h"

#include <cmath>

#include "kernels/api/float_formats.h"
#include "tools/bench/device_memory.h"

namespace dunlin::tools::bench {

using engine::Fp8Recipe;
using engine::Fp8Scaling;

absl::StatusOr<LayerScaling> LayerScaling::Create(Fp8Recipe recipe, const engine::ModelConfig& config,
                                                  kernels::Device* device, engine::StepBuffers* buffers) {
  const engine::Fp8Options options{.recipe = recipe};
  const int32_t num_inputs = engine::NumInputs(config);
  float* memory = buffers->floats(engine::BufferId::kFp8Scales);
  const std::vector<float> ones(static_cast<size_t>(num_inputs), 1.0F);  // until Calibrate
  auto scaling = Fp8Scaling::Create(options, num_inputs, ones, device, memory);
  if (!scaling.ok()) return scaling.status();
  return LayerScaling(options, *scaling, num_inputs, device, memory);
}

absl::Status LayerScaling::Calibrate(absl::FunctionRef<absl::Status(const Fp8Scaling&)> run) {
  const bool delayed = options_.recipe == Fp8Recipe::kDelayed;
  if (!delayed && options_.recipe != Fp8Recipe::kStatic) return absl::OkStatus();
  const auto inputs = static_cast<size_t>(num_inputs_);
  auto observed = DeviceMemory::Allocate(device_, inputs * sizeof(float), "the magnitudes of inputs");
  if (!observed.ok()) return observed.status();
  if (absl::Status status = run(Fp8Scaling::Observe(observed->floats())); !status.ok()) return status;
  std::vector<float> amaxes(inputs);
  if (absl::Status status = observed->Read(amaxes.data(), inputs * sizeof(float)); !status.ok()) return status;
  // Rows of kFp8Scales: scales; for delayed also factors and the history, whose row 0 belongs to the running step. An
  // input that the module does not have keeps scale 1.
  const size_t rows = delayed ? 2 + static_cast<size_t>(options_.amax_history_len) : 1;
  state_.assign(rows * inputs, 0.0F);
  for (size_t i = 0; i < inputs; ++i) {
    const bool present = amaxes[i] > 0.0F && std::isfinite(amaxes[i]);
    const float factor = present ? kernels::kE4M3Max / amaxes[i] : 1.0F;
    state_[i] = 1.0F / factor;
    if (!delayed) continue;
    state_[inputs + i] = factor;
    for (size_t row = 3; row < rows && present; ++row) state_[row * inputs + i] = amaxes[i];
  }
  return Reset();
}

absl::Status LayerScaling::Reset() {
  if (state_.empty()) return absl::OkStatus();
  return StatusOf(device_->ops->copy_to_device(device_->context, memory_, state_.data(), state_.size() * sizeof(float)),
                  "copy of the FP8 scales");
}

}  // namespace dunlin::tools::bench
