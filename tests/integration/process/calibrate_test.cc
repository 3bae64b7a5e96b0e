// SPDX-License-Identifier: Apache-2.0
// `dunlin calibrate` end to end: its output is served with the recipe static; its exit statuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/base/file.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;

TEST(CalibrateTest, WhatItWritesIsServedAsStatic) {
  const engine::TempDirectory temp;
  const std::string out = temp.File("static");
  const CommandResult result =
      RunDunlin({"calibrate", kDemoModel, "--text", kHeldOutText, "--out", out, "--max-tokens", "1000"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1000 tokens in fp32"));
  EXPECT_TRUE(std::filesystem::exists(out + "/dunlin_input_scales.json"));
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));

  const ServerProcess server(DUNLIN_SOURCE_DIR "/configs/demo.json",
                             {"--set", "models.0.path=" + out, "--set", "models.0.fp8.recipe=static"});
  ASSERT_TRUE(server.ready()) << server.Log();
  const CommandResult answer =
      RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--precision", "fp8", "--temperature", "0",
                 "--max-tokens", "6", "--ignore-eos", "--json", "The history of"});
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["execution"]["recipe"], "static");
  EXPECT_EQ(json["token_ids"].size(), 6U);
}

TEST(CalibrateTest, AServerThatReadsTheModelMeanwhileSeesNoChangeOfIt) {
  const engine::TempDirectory temp;
  const std::string out = temp.File("static");
  auto directory = engine::Directory::Open(kDemoModel);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto file = directory->OpenFile("model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const CommandResult result =
      RunDunlin({"calibrate", kDemoModel, "--text", kHeldOutText, "--out", out, "--max-tokens", "64"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(file->CheckUnchanged().ok()) << file->CheckUnchanged();
  std::filesystem::remove_all(out);
  EXPECT_TRUE(file->CheckUnchanged().ok()) << file->CheckUnchanged();
}

TEST(CalibrateTest, TheCopyIsTheModelAndWhatIsThereStays) {
  const engine::TempDirectory temp;
  std::filesystem::create_directory(temp.File("static"));
  temp.Write("static/README.md", "mine");
  const std::string out = temp.File("static");
  const CommandResult result =
      RunDunlin({"calibrate", kDemoModel, "--text", kHeldOutText, "--out", out, "--max-tokens", "64"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto contents = [](const std::string& path) {
    return (std::ostringstream() << std::ifstream(path).rdbuf()).str();
  };
  EXPECT_EQ(contents(out + "/README.md"), "mine");
  EXPECT_GT(contents(out + "/model.safetensors").size(), 1000000U);
  EXPECT_EQ(contents(out + "/model.safetensors"), contents(kDemoModel + "/model.safetensors"));
}

TEST(CalibrateTest, StaticWithoutScalesIsRefusedAtStart) {
  const CommandResult result =
      RunDunlin({"serve", "--config", DUNLIN_SOURCE_DIR "/configs/demo.json", "--set", "listen.grpc=127.0.0.1:0",
                 "--set", "listen.http=127.0.0.1:0", "--set", "models.0.fp8.recipe=static"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("models[].fp8.recipe is static, but the model has no input scale"));
}

TEST(CalibrateTest, RefusalsAndUsageHaveTheirStatuses) {
  const engine::TempDirectory temp;
  EXPECT_EQ(RunDunlin({"calibrate", kDemoModel, "--text", kHeldOutText}).status, 2);
  EXPECT_EQ(RunDunlin({"calibrate", kDemoModel, "--text", kHeldOutText, "--out", temp.File("x"), "--precision", "int3"})
                .status,
            2);
  EXPECT_EQ(RunDunlin({"calibrate", "--help"}).status, 0);
  const CommandResult no_text =
      RunDunlin({"calibrate", kDemoModel, "--text", temp.File("none"), "--out", temp.File("x")});
  EXPECT_EQ(no_text.status, 1);
  EXPECT_THAT(no_text.err, HasSubstr("NOT_FOUND: --text"));
  temp.Write("empty", "");
  const CommandResult empty =
      RunDunlin({"calibrate", kDemoModel, "--text", temp.File("empty"), "--out", temp.File("x")});
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("the text has no tokens"));
  EXPECT_FALSE(std::filesystem::exists(temp.File("x")));
}

}  // namespace
}  // namespace dunlin::integration
