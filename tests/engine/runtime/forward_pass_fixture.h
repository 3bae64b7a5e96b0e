// SPDX-License-Identifier: Apache-2.0
// Runs a forward pass over a fake device, which notes the operations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/layers/forward_pass.h"
#include "engine/request/options.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "tests/engine/runtime/fake_device.h"
#include "tests/engine/runtime/small_models.h"
#include "tests/engine/runtime/step_fixture.h"

namespace dunlin::engine {

// Runs a plan of five tokens, the first of which samples, over a fake device.
class ForwardPassTest : public ::testing::Test {
 protected:
  absl::Status Run(const ModelConfig& config, const ExecutionProfile& profile) {
    EngineOptions options;
    options.max_tokens_per_step = 16;
    options.max_sequences = 4;
    options.execution = execution_;
    options.deterministic = deterministic_;
    const MemoryPlan plan = *PlanMemory(config, {profile.precision}, *device_, options);
    const auto buffers = *StepBuffers::Allocate(plan, config.position_constants(), device_.get());
    StepInputs inputs(plan);
    PlanBuilder builder(profile);
    builder.Add(20, 2, 2, 1, {1}, samples_);  // decodes, so it stands first
    builder.Add(10, 4, 0, 4, {0}, scores_)->sampling.prompt_logprobs = scores_ ? 0 : -1;
    const StepPlan step = builder.plan();
    inputs.Stage(step, step.sub_batches[0], 8);
    EXPECT_EQ(inputs.Upload(buffers.get()), kernels::KernelStatus::kOk);
    const float bias = 0.0F;
    const PrecisionWeights weights = ShapesOf(config, profile.precision, &bias);
    ForwardPass pass(config, weights, profile, inputs.pass_inputs(), buffers->layers());
    const absl::Status status = pass.RunLayers();
    progress_ = buffers->progress();
    num_pages_ = plan.num_pages;
    return status.ok() && samples_ ? pass.RunHead(0, 1) : status;
  }
  // The lines after the last "store kv".
  std::vector<std::string> AfterTheLastKv() const {
    const auto last = std::find_if(log_.lines.rbegin(), log_.lines.rend(),
                                   [](const std::string& line) { return line.rfind("store kv", 0) == 0; });
    return {last.base(), log_.lines.end()};
  }

  bool samples_ = true;
  int32_t num_pages_ = 0;  // of the plan of the last Run
  uint64_t progress_ = 0;  // of the layers of the last Run
  bool scores_ = false;    // every row of the prompt, too
  ExecutionMode execution_ = ExecutionMode::kFused;
  bool deterministic_ = true;
  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
};

}  // namespace dunlin::engine
