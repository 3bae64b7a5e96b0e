// SPDX-License-Identifier: Apache-2.0
// A layer of a model with random weights, run module by module for `dunlin bench layer`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/forward_pass.h"
#include "engine/model/model.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "tools/bench/benches.h"
#include "tools/bench/layer_reference.h"
#include "tools/bench/layer_scaling.h"
#include "tools/bench/layer_size.h"
#include "tools/bench/proof.h"
#include "tools/bench/timed_device.h"

namespace dunlin::tools::bench {

struct LayerRung {
  const char* name;
  engine::Module module;
};

struct LayerCase {
  const char* name;
  LayerSize published;
  double scale;  // default on a CPU, so that a run takes seconds
  std::span<const LayerRung> rungs;
  std::span<const engine::Fp8Recipe> recipes;  // of FP8, unless --fp8-recipe says others
};

// One model, one precision, one execution, one backend: its buffers and staged inputs.
class LayerRun {
 public:
  // ops: of the model's device, counted while it runs.
  LayerRun(const LayerCase& row, const LayerSize& size, const engine::Model* model, const LayerReference* reference,
           const TimedDevice* ops, const engine::ExecutionProfile& profile, engine::ExecutionMode execution)
      : row_(row),
        d_(size),
        model_(*model),
        reference_(*reference),
        timed_(*ops),
        profile_(profile),
        execution_(execution),
        ops_(*model->device()->ops),
        context_(model->device()->context) {}

  absl::Status Prepare(uint64_t seed);
  absl::StatusOr<Record> Run(Session* session, const LayerRung& rung);

 private:
  absl::Status Reset();
  absl::Status Calibrate(const LayerRung& rung);
  engine::ForwardPass PassWith(const engine::Fp8Scaling* scaling) const {
    return {model_.config(), model_.weights(profile_.precision), profile_, inputs_->pass_inputs(), buffers_->layers(),
            scaling};
  }
  absl::Status PoisonOutput(engine::Module module);
  absl::StatusOr<Proof> Check(const LayerRung& rung) const;
  Work WorkOf(engine::Module module) const;
  double ProductFlops(engine::Module module) const;
  void AddProducts(const OpSeconds& before, engine::Module module, Record* record) const;
  engine::BufferId OutputOf(engine::Module module) const {
    return module == engine::Module::kLinear || module == engine::Module::kLayerNormLinear ? engine::BufferId::kQkv
                                                                                           : engine::BufferId::kHidden;
  }
  int32_t rows() const { return d_.batch * d_.tokens; }

  const LayerCase& row_;
  const LayerSize d_;
  const engine::Model& model_;
  const LayerReference& reference_;
  const TimedDevice& timed_;
  const engine::ExecutionProfile profile_;
  const engine::ExecutionMode execution_;
  const kernels::DeviceOps& ops_;
  kernels::DeviceContext* const context_;
  std::vector<float> hidden_;  // [rows, hidden_dim]
  std::unique_ptr<engine::StepBuffers> buffers_;
  std::unique_ptr<engine::StepInputs> inputs_;
  std::optional<LayerScaling> scaling_;  // of FP8
};

}  // namespace dunlin::tools::bench
