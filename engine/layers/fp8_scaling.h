// SPDX-License-Identifier: Apache-2.0
// The scales of a runtime's FP8 GEMM inputs under the model's recipe: sets the scaling fields of Activations, and
// updates the recipe's state from the amaxes that the kernels measured. Thread rule: the engine thread only. Nothing
// allocates after Create.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/fp8_recipe.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// The inputs of a layer's GEMMs, in the order of the pass.
enum class LayerInput : uint8_t { kQkv, kAttentionOut, kMlpUp, kMlpDown };
inline constexpr int32_t kInputsPerLayer = 4;

// Every GEMM input of a model has an index: those of each layer, then the head's.
constexpr int32_t InputIndex(int32_t layer, LayerInput input) {
  return layer * kInputsPerLayer + static_cast<int32_t>(input);
}
// Of an input that no observer sees and that has no scale of a recipe: its rows have scales of their own.
inline constexpr int32_t kUnobservedInput = -1;
inline int32_t HeadInputIndex(const ModelConfig& config) {
  return config.num_layers * kInputsPerLayer;
}
inline int32_t NumInputs(const ModelConfig& config) {
  return HeadInputIndex(config) + 1;
}

// FAILED_PRECONDITION, naming both keys, when the recipe shares scales between requests although responses must not
// depend on their batch. Checked at start, before anything is loaded.
absl::Status CheckFp8Recipe(const Fp8Options& options, bool deterministic);

// The input scales [NumInputs] that the recipe starts from: the checkpoint's, 1 where it has none. Empty for per_token.
// FAILED_PRECONDITION when static lacks the scale of an FP8 weight, and when a recipe with one scale for all rows meets
// weights with a scale per kScaleBlock inputs, experts or latent attention.
absl::StatusOr<std::vector<float>> InputConstants(const Fp8Options& options, const Model& model);

class Fp8Scaling {
 public:
  // constants: [num_inputs] for the recipe static, finite and > 0; otherwise not read. memory: kFp8Scales of a plan
  // made for num_inputs, zero where it is new; null for per_token. Writes the initial scales.
  static absl::StatusOr<Fp8Scaling> Create(const Fp8Options& options, int32_t num_inputs,
                                           const std::vector<float>& constants, kernels::Device* device, float* memory);

  // For calibration: measures without scaling. amaxes[input index], in device memory and >= 0 at the start, becomes the
  // largest magnitude of each input, in any precision. EndSubBatch is not called.
  static Fp8Scaling Observe(float* amaxes);

  // Sets the scaling fields of an input before it is filled.
  void Apply(int32_t input_index, kernels::Activation* activation) const;

  // After each FP8 sub-batch: updates the state of the recipe delayed. INTERNAL when the device fails.
  absl::Status EndSubBatch();

 private:
  Fp8Scaling(const Fp8Options& options, int32_t num_inputs, kernels::Device* device, float* memory)
      : options_(options), num_inputs_(num_inputs), device_(device), memory_(memory) {}
  absl::Status Write(float* row, const std::vector<float>& values);
  // Rows of [num_inputs] in memory_: scales (value = code * scale); for delayed also the factors 1 / scale and the
  // history of amaxes, whose row 0 belongs to the running sub-batch.
  float* scales() const { return memory_; }
  float* factors() const { return scales() + num_inputs_; }
  float* amaxes() const { return factors() + num_inputs_; }

  Fp8Options options_;
  int32_t num_inputs_;
  kernels::Device* device_;
  float* memory_;
  float* observed_ = nullptr;  // the amaxes of Observe
};

}  // namespace dunlin::engine
