// SPDX-License-Identifier: Apache-2.0
// A fixture that writes a model directory and loads it on a PlainDevice, whose weights tests can read back.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {

class ModelLoading : public ::testing::Test {
 protected:
  // Replaces the directory's model.
  absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& config, const std::vector<TestTensor>& tensors,
                                              const std::vector<Precision>& precisions = {Precision::kFp32}) {
    WriteModel(temp_, config, tensors);
    return LoadModel({.path = temp_.path(), .random_shape = "", .precisions = precisions}, device_.get());
  }

  TempDirectory temp_;
  PlainDeviceState state_;
  std::unique_ptr<kernels::Device> device_ = MakePlainDevice(&state_);
};

}  // namespace dunlin::engine
