// SPDX-License-Identifier: Apache-2.0
// The FP8 scales of a layer run under one recipe. Random weights have no constants and no earlier steps: one run of the
// module with the bench's own input gives the magnitudes from which "static" and "delayed" start.
// Thread rule: one thread.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/device.h"

namespace dunlin::tools::bench {

class LayerScaling {
 public:
  // buffers: of a plan made with this recipe; borrowed.
  static absl::StatusOr<LayerScaling> Create(engine::Fp8Recipe recipe, const engine::ModelConfig& config,
                                             kernels::Device* device, engine::StepBuffers* buffers);

  // Takes the state of the recipe from one call of run(observer); where the recipe has no state, does not call it.
  absl::Status Calibrate(absl::FunctionRef<absl::Status(const engine::Fp8Scaling&)> run);
  // Returns to that state, of "delayed" as after a whole history of such steps.
  absl::Status Reset();
  // After each step, as the runtime does.
  absl::Status EndStep() { return scaling_.EndSubBatch(); }

  const engine::Fp8Scaling* scaling() const { return &scaling_; }

 private:
  LayerScaling(const engine::Fp8Options& options, engine::Fp8Scaling scaling, int32_t num_inputs,
               kernels::Device* device, float* memory)
      : options_(options), scaling_(scaling), num_inputs_(num_inputs), device_(device), memory_(memory) {}

  engine::Fp8Options options_;
  engine::Fp8Scaling scaling_;
  int32_t num_inputs_;
  kernels::Device* device_;
  float* memory_;             // engine::BufferId::kFp8Scales
  std::vector<float> state_;  // what Reset writes there; empty: nothing
};

}  // namespace dunlin::tools::bench
