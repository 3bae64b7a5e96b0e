// The scales of a runtime's FP8 GEMM inputs under the model's recipe: puts them into Activations, and has the device
// take in what its kernels measured. Thread rule: the engine thread only. Nothing is allocated after Create.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/fp8_recipe.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

// The inputs of a layer's GEMMs, in the order of the pass.
enum class LayerInput : uint8_t { kQkv, kAttentionOut, kMlpUp, kMlpDown };
inline constexpr int32_t kInputsPerLayer = 4;

// Every GEMM input of a model has an index: those of each layer, then the head's.
constexpr int32_t InputIndex(int32_t layer, LayerInput input) {
  return layer * kInputsPerLayer + static_cast<int32_t>(input);
}
inline int32_t HeadInputIndex(const ModelConfig& config) {
  return config.num_layers * kInputsPerLayer;
}
inline int32_t NumInputs(const ModelConfig& config) {
  return HeadInputIndex(config) + 1;
}

// FAILED_PRECONDITION when the recipe would let neighbours into a response that must not depend on them: names both
// keys. Asked at start, before anything is loaded.
absl::Status CheckFp8Recipe(const Fp8Options& options, bool deterministic);

// What a recipe needs of the model: the constants [NumInputs] of static (1 for an input that no FP8 weight reads),
// empty for the others. FAILED_PRECONDITION when static lacks one, and when weights with a scale per kScaleBlock inputs
// meet a recipe whose rows share one.
absl::StatusOr<std::vector<float>> InputConstants(const Fp8Options& options, const Model& model);

class Fp8Scaling {
 public:
  // constants: [num_inputs] for the recipe static, finite and > 0; else not read. Writes kFp8Scales, which the plan has
  // made for num_inputs.
  static absl::StatusOr<Fp8Scaling> Create(const Fp8Options& options, int32_t num_inputs,
                                           const std::vector<float>& constants, StepBuffers* buffers);

  // Measures and scales nothing by it: each input, in any precision, adds its amax to amaxes[input index], in device
  // memory, >= 0 at the start. For calibration; EndSubBatch is not called.
  static Fp8Scaling Observe(float* amaxes);

  // Sets the scaling fields of an input that is about to be filled.
  void Apply(int32_t input_index, kernels::Activation* activation) const;

  // After a sub-batch in FP8: the state moves on. INTERNAL when the device fails.
  absl::Status EndSubBatch();

 private:
  Fp8Scaling(const Fp8Options& options, int32_t num_inputs, StepBuffers* buffers);
  absl::Status Write(float* row, const std::vector<float>& values);
  // kFp8Scales, of [num_inputs] each: scales (value = code * scale); of kDelayed also the factors 1 / scale and the
  // history of amaxes, whose row 0 is that of the running sub-batch.
  float* scales() const { return buffers_->floats(BufferId::kFp8Scales); }
  float* factors() const { return scales() + num_inputs_; }
  float* amaxes() const { return factors() + num_inputs_; }

  Fp8Options options_;
  int32_t num_inputs_;
  StepBuffers* buffers_;
  float* observed_ = nullptr;  // Observe's
};

}  // namespace dunlin::engine
