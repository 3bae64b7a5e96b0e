// SPDX-License-Identifier: Apache-2.0
// The tiny directories of tests/golden/models load on the CPU in every precision, and embeddings are read back as
// stored. Their results are tested with the forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/load/load_model.h"
#include "kernels/api/device.h"

namespace dunlin::engine {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> GoldenDirectories() {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(DUNLIN_SOURCE_DIR "/tests/golden/models", error)) {
    if (fs::exists(entry.path() / "config.json")) paths.push_back(entry.path().string());
  }
  return paths;
}

TEST(GoldenModels, LoadOnTheCpuInEveryPrecision) {
  std::string error;
  const auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {.num_threads = 1, .cpu_variant = ""}, &error);
  ASSERT_NE(device, nullptr) << error;
  const std::vector<std::string> paths = GoldenDirectories();
  ASSERT_FALSE(paths.empty()) << "no model under tests/golden/models";
  for (const std::string& path : paths) {
    const auto model =
        LoadModel({.path = path,
                   .random_shape = "",
                   .precisions = {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}},
                  device.get());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->warnings().empty()) << path << ": " << (*model)->warnings().front();
    EXPECT_FALSE((*model)->config().eos_token_ids.empty() && path.find("nanogpt") == std::string::npos) << path;
    const ModelConfig& config = (*model)->config();
    std::vector<float> row(static_cast<size_t>(config.hidden_dim));
    for (const Precision precision : (*model)->precisions()) {
      const int32_t last = config.vocab_size - 1;
      const kernels::GatherRowsParams params = {.weight = &(*model)->weights(precision).embedding,
                                                .ids = &last,
                                                .out = row.data(),
                                                .num_rows = 1,
                                                .accumulate = false};
      ASSERT_EQ(device->ops->gather_rows(device->context, params), kernels::KernelStatus::kOk);
      float largest = 0.0F;
      for (const float value : row) {
        ASSERT_TRUE(std::isfinite(value));
        largest = std::max(largest, std::abs(value));
      }
      EXPECT_GT(largest, 0.0F) << path;
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
