// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/calibration.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/runtime/device_status.h"
#include "kernels/api/float_formats.h"
#include "tools/quantize/text_windows.h"

namespace dunlin::engine {
namespace {

// One FP32 for each input, zero at the start, in device memory.
class Amaxes {
 public:
  Amaxes(kernels::Device* device, int32_t count)
      : device_(device),
        bytes_(static_cast<size_t>(count) * sizeof(float)),
        memory_(static_cast<float*>(device->ops->allocate(device->context, bytes_))) {}
  Amaxes(const Amaxes&) = delete;
  Amaxes& operator=(const Amaxes&) = delete;
  ~Amaxes() {
    if (memory_ != nullptr) device_->ops->release(device_->context, memory_, bytes_);
  }

  float* data() const { return memory_; }
  absl::StatusOr<std::vector<float>> Read() const {
    std::vector<float> values(bytes_ / sizeof(float));
    absl::Status status =
        DeviceStatus(device_->ops->copy_to_host(device_->context, values.data(), memory_, bytes_), "copy of amaxes");
    if (status.ok()) status = DeviceStatus(device_->ops->synchronize(device_->context), "calibration");
    if (!status.ok()) return status;
    return values;
  }

 private:
  kernels::Device* device_;
  size_t bytes_;
  float* memory_;
};

// An input that was always 0 gets scale 1; any would do.
absl::StatusOr<InputScales> ToScales(const ModelConfig& config, const std::vector<float>& amaxes) {
  constexpr WeightSlot kSlots[kInputsPerLayer] = {WeightSlot::kQkv, WeightSlot::kAttentionOut, WeightSlot::kMlpUp,
                                                  WeightSlot::kMlpDown};
  InputScales scales;
  for (int32_t i = 0; i < NumInputs(config); ++i) {
    const float amax = amaxes[static_cast<size_t>(i)];
    const int32_t layer = i / kInputsPerLayer;
    if (!std::isfinite(amax)) {
      return absl::InvalidArgumentError(
          absl::StrCat(i == HeadInputIndex(config) ? "the head" : absl::StrCat("layer ", layer),
                       " has an input that is not finite; run the calibration in fp32 (--precision fp32)"));
    }
    const float scale = amax / kernels::kE4M3Max;
    const bool is_head = i == HeadInputIndex(config);
    const auto key = is_head ? std::pair(WeightSlot::kHead, 0) : std::pair(kSlots[i % kInputsPerLayer], layer);
    scales[key] = std::isnormal(scale) ? scale : 1.0F;
  }
  return scales;
}

}  // namespace

absl::StatusOr<InputScales> CalibrateInputs(const Model& model, std::span<const TokenId> tokens) {
  const ModelConfig& config = model.config();
  const absl::StatusOr<TextWindows> windows = TextWindows::Create(model, ExecutionMode::kFused);
  if (!windows.ok()) return windows.status();
  if (config.has_experts() || config.attention.is_latent() || config.is_recurrent() || config.has_layer_inputs()) {
    const char* what = config.has_experts()        ? " has experts"
                       : config.is_recurrent()     ? " has recurrent layers"
                       : config.has_layer_inputs() ? " has per-layer embeddings"
                                                   : " has latent attention";
    return absl::FailedPreconditionError(
        absl::StrCat(config.architecture, what, ": its inputs take a scale per token and are not calibrated"));
  }
  const Amaxes amaxes(model.device(), NumInputs(config));
  if (amaxes.data() == nullptr) return absl::ResourceExhaustedError("no memory for the observed magnitudes");
  const Fp8Scaling observer = Fp8Scaling::Observe(amaxes.data());
  if (absl::Status status = windows->Run(tokens, {.scaling = &observer}); !status.ok()) return status;
  const absl::StatusOr<std::vector<float>> observed = amaxes.Read();
  if (!observed.ok()) return observed.status();
  return ToScales(config, *observed);
}

}  // namespace dunlin::engine
