// SPDX-License-Identifier: Apache-2.0
// What an empty models[].precisions stands for.
#include "server/models/default_precisions.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace dunlin::server {
namespace {

using engine::Precision;

class DefaultPrecisions : public ::testing::Test {
 protected:
  DefaultPrecisions() {
    std::string error;
    cpu_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {1, "portable"}, &error);
  }

  // Of a file or directory below tests/golden.
  std::vector<Precision> Of(const std::string& file, const kernels::Device& device,
                            const std::string& precisions = "[]", const std::string& allowed = "[]") const {
    const auto config =
        LoadConfigText(R"({"models": [{"name": "m", "path": ")" DUNLIN_SOURCE_DIR "/tests/golden/" + file +
                           R"(", "precisions": )" + precisions + R"(, "allowed": {"precisions": )" + allowed + "}}]}",
                       {});
    EXPECT_TRUE(config.ok()) << config.status();
    const auto completed = WithDefaultPrecisions(*config, {const_cast<kernels::Device*>(&device)});
    EXPECT_TRUE(completed.ok()) << completed.status();
    return completed->models[0].source.precisions;
  }

  std::unique_ptr<kernels::Device> cpu_;
};

TEST_F(DefaultPrecisions, AreThoseOfTheCheckpointsQuantization) {
  EXPECT_EQ(Of("gguf/llama_k/model.gguf", *cpu_), std::vector{Precision::kInt4});
  EXPECT_EQ(Of("gguf/llama_q4/model.gguf", *cpu_), std::vector{Precision::kInt4});
  EXPECT_EQ(Of("gguf/qwen2_q8/model.gguf", *cpu_), std::vector{Precision::kInt8});
  EXPECT_EQ(Of("gguf/llama_gqa.gguf", *cpu_), std::vector{Precision::kBf16});
  EXPECT_EQ(Of("quant/awq4", *cpu_), std::vector{Precision::kInt4});
  EXPECT_EQ(Of("quant/gptq_symmetric4", *cpu_), std::vector{Precision::kInt4});
  EXPECT_EQ(Of("quant/compressed_channel8", *cpu_), std::vector{Precision::kInt8});
  EXPECT_EQ(Of("quant/gptq_desc_act4", *cpu_), std::vector{Precision::kBf16});  // dequantised
}

TEST_F(DefaultPrecisions, LeaveWhatTheConfigSays) {
  EXPECT_EQ(Of("gguf/llama_k/model.gguf", *cpu_, R"(["fp32"])"), std::vector{Precision::kFp32});
  EXPECT_EQ(Of("gguf/llama_k/model.gguf", *cpu_, "[]", R"(["bf16", "fp32"])"), std::vector{Precision::kBf16});
}

TEST_F(DefaultPrecisions, AreBf16WhereTheDeviceDoesNotMultiplyTheCodes) {
  kernels::DeviceOps ops = *cpu_->ops;
  ops.packed_weight_bytes = [](kernels::WeightFormat format, int64_t, int64_t, int32_t) {
    return Traits(format).dtype ? size_t{64} : size_t{0};
  };
  kernels::Device device;
  device.ops = &ops;
  EXPECT_EQ(Of("gguf/llama_k/model.gguf", device), std::vector{Precision::kBf16});
}

TEST_F(DefaultPrecisions, AreRefusedWhereTheyAreNotAllowed) {
  const auto complete = [this](const std::string& allowed) {
    const auto config =
        LoadConfigText(R"({"models": [{"name": "m", "path": ")" DUNLIN_SOURCE_DIR
                       R"(/tests/golden/gguf/llama_k/model.gguf", "precisions": [], "allowed": {"precisions": )" +
                           allowed + "}}]}",
                       {});
    EXPECT_TRUE(config.ok()) << config.status();
    return WithDefaultPrecisions(*config, {cpu_.get()});
  };
  EXPECT_TRUE(complete(R"(["int4"])").ok());
  EXPECT_TRUE(complete(R"(["bf16"])").ok());
  const absl::Status refused = complete(R"(["fp8", "int8"])").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "model \"m\": models[].precisions is empty, which makes it bf16; limit is one of "
            "models[].allowed.precisions");
}

TEST_F(DefaultPrecisions, SayWhichModelCannotBeOpened) {
  const auto config = LoadConfigText(R"({"models": [{"name": "m", "path": "/no/such.gguf", "precisions": []}]})", {});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto completed = WithDefaultPrecisions(*config, {cpu_.get()});
  EXPECT_EQ(completed.status().message().substr(0, 10), "model \"m\":");
}

}  // namespace
}  // namespace dunlin::server
