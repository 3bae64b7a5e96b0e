// SPDX-License-Identifier: Apache-2.0
// `dunlin quantize` end to end: what it writes is served, GPTQ keeps the perplexity of real text near, and what
// cannot be quantised is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "engine/base/file.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;

const std::string kDemoModel = DUNLIN_SOURCE_DIR "/models/demo";
const std::string kText = DUNLIN_SOURCE_DIR "/tests/golden/models/demo_heldout.txt";

// The number behind "perplexity NAME: ".
double PerplexityIn(const std::string& text, const std::string& name) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex("perplexity " + name + ": ([0-9.]+)"))) return 0.0;
  return std::stod(match[1]);
}

TEST(QuantizeTest, WhatItWritesIsServed) {
  const engine::TempDirectory temp;
  const std::string out = temp.File("int4");
  const CommandResult result = RunDunlin({"quantize", kDemoModel, "--to", "int4", "--out", out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("matrices of"));
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
  EXPECT_LT(std::filesystem::file_size(out + "/model.safetensors"),
            std::filesystem::file_size(kDemoModel + "/model.safetensors"));
  const ServerProcess server(DUNLIN_SOURCE_DIR "/configs/demo.json", {"--set", "models.0.path=" + out});
  ASSERT_TRUE(server.ready()) << server.Log();
  const CommandResult answer = RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--temperature",
                                          "0", "--max-tokens", "6", "--ignore-eos", "--json", "The history of"});
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["token_ids"].size(), 6U);
}

TEST(QuantizeTest, GptqKeepsThePerplexityNear) {
  const engine::TempDirectory temp;
  double after[2] = {};
  double before = 0.0;
  for (const bool by_activity : {false, true}) {
    std::vector<std::string> arguments = {
        "quantize",    kDemoModel,      "--to",          "int4",  "--group-size",
        "0",           "--calibration", kText,           "--out", temp.File(by_activity ? "a" : "b"),
        "--precision", "fp32",          "--moments-mib", "1"};
    if (by_activity) arguments.emplace_back("--act-order");
    const CommandResult result = RunDunlin(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("inputs over"));
    before = PerplexityIn(result.out, "before");
    after[by_activity ? 1 : 0] = PerplexityIn(result.out, "after");
  }
  ASSERT_GT(before, 10.0);
  EXPECT_GT(after[0], before);
  EXPECT_LT(after[0], 1.2 * before);
  EXPECT_LT(after[1], 1.2 * before);
}

TEST(QuantizeTest, WhatCannotBeQuantisedIsRefused) {
  const engine::TempDirectory temp;
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "quantize");
    const CommandResult result = RunDunlin(arguments);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  const std::string out = temp.File("out");
  EXPECT_THAT(refusal({DUNLIN_SOURCE_DIR "/tests/golden/models/gpt2_tiny", "--to", "int4", "--out", out}),
              HasSubstr("is stored [in_features, out_features], which compressed-tensors has no layout for"));
  EXPECT_FALSE(std::filesystem::exists(out + "/model.safetensors"));
  EXPECT_THAT(refusal({kDemoModel, "--to", "int3", "--out", out}), HasSubstr("int3"));
  EXPECT_THAT(refusal({kDemoModel, "--to", "int4", "--act-order", "--out", out}), HasSubstr("needs --calibration"));
  EXPECT_THAT(refusal({kDemoModel, "--to", "int4", "--out", kDemoModel}), HasSubstr("has a model already"));
  EXPECT_THAT(refusal({kDemoModel, "--to", "int4", "--calibration", temp.File("none"), "--out", out}),
              HasSubstr("none cannot be read"));
  ASSERT_EQ(RunDunlin({"quantize", kDemoModel, "--to", "int8", "--group-size", "0", "--out", temp.File("int8")}).status,
            0);
  EXPECT_THAT(refusal({temp.File("int8"), "--to", "int4", "--out", temp.File("twice")}),
              HasSubstr("is quantised already: compressed-tensors"));
}

}  // namespace
}  // namespace dunlin::integration
