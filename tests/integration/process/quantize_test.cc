// SPDX-License-Identifier: Apache-2.0
// `dunlin quantize` end to end: what it writes is served, GPTQ keeps the perplexity of real text near, and what
// cannot be quantised is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "engine/base/file.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/safetensors_writer.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;

constexpr const char* kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 4096,
        "max_position_embeddings": 256, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "eos_token_id": 0,
        "time_step_limit": [0.0, Infinity]})";

std::vector<float> Normal(std::mt19937* random, size_t count, float scale) {
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

// A random Llama with the demo model's tokenizer.
void WriteLlama(const engine::TempDirectory& directory) {
  std::mt19937 random(5);
  std::vector<engine::TestTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float scale) {
    size_t count = 1;
    for (const int64_t side : shape) count *= static_cast<size_t>(side);
    tensors.push_back(
        {.name = name, .shape = std::move(shape), .dtype = "BF16", .values = Normal(&random, count, scale)});
  };
  add("model.embed_tokens.weight", {4096, 64}, 0.3F);
  add("model.norm.weight", {64}, 1.0F);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(layer + norm + ".weight", {64}, 1.0F);
    add(layer + "self_attn.q_proj.weight", {64, 64}, 0.2F);
    add(layer + "self_attn.k_proj.weight", {32, 64}, 0.2F);
    add(layer + "self_attn.v_proj.weight", {32, 64}, 0.2F);
    add(layer + "self_attn.o_proj.weight", {64, 64}, 0.2F);
    add(layer + "mlp.gate_proj.weight", {96, 64}, 0.2F);
    add(layer + "mlp.up_proj.weight", {96, 64}, 0.2F);
    add(layer + "mlp.down_proj.weight", {64, 96}, 0.2F);
  }
  directory.Write("model.safetensors", engine::SafetensorsBytes(tensors));
  directory.Write("config.json", kConfig);
  std::filesystem::copy(kDemoModel + "/tokenizer.json", directory.path());
}

// The number behind "perplexity NAME: ".
double PerplexityIn(const std::string& text, const std::string& name) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex("perplexity " + name + ": ([0-9.]+)"))) return 0.0;
  return std::stod(match[1]);
}

TEST(QuantizeTest, WhatItWritesIsServed) {
  const engine::TempDirectory temp;
  const engine::TempDirectory llama;
  WriteLlama(llama);
  const std::string out = temp.File("int4");
  const CommandResult result = RunDunlin({"quantize", llama.path(), "--to", "int4", "--out", out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("matrices of"));
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
  EXPECT_LT(std::filesystem::file_size(out + "/model.safetensors"),
            std::filesystem::file_size(llama.File("model.safetensors")));
  const CommandResult inspected = RunDunlin({"inspect", out, "--json"});
  ASSERT_EQ(inspected.status, 0) << inspected.out;
  const nlohmann::json own = nlohmann::json::parse(inspected.out)["checkpoint_quantization"];
  EXPECT_EQ(own["precision"], "int4");
  EXPECT_EQ(own["matrices_bytes"].size(), 2U) << own;  // and the embedding, which is also the head
  EXPECT_TRUE(own["matrices_bytes"].contains("q4_group32") && own["matrices_bytes"].contains("bf16")) << own;
  const ServerProcess server(DUNLIN_SOURCE_DIR "/configs/demo.json",
                             {"--set", "models.0.path=" + out, "--set", "models.0.precisions=[]"});
  ASSERT_TRUE(server.ready()) << server.Log();
  const CommandResult answer = RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--temperature",
                                          "0", "--max-tokens", "6", "--ignore-eos", "--json", "The history of"});
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const nlohmann::json message = nlohmann::json::parse(answer.out);
  EXPECT_EQ(message["token_ids"].size(), 6U);
  EXPECT_EQ(message["execution"]["precision"], "int4") << message;
  EXPECT_EQ(message["execution"]["checkpoint_quantization"], true) << message;
}

TEST(QuantizeTest, GptqKeepsThePerplexityNear) {
  const engine::TempDirectory temp;
  const engine::TempDirectory llama;
  WriteLlama(llama);
  double after[2] = {};
  double before = 0.0;
  for (const bool by_activity : {false, true}) {
    std::vector<std::string> arguments = {
        "quantize",    llama.path(),    "--to",          "int4",  "--group-size",
        "0",           "--calibration", kHeldOutText,    "--out", temp.File(by_activity ? "a" : "b"),
        "--precision", "fp32",          "--moments-mib", "1"};
    if (!by_activity) arguments.emplace_back("--no-act-order");
    const CommandResult result = RunDunlin(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("inputs over"));
    std::ifstream file(temp.File(by_activity ? "a" : "b") + "/config.json");
    std::string config(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(absl::StrReplaceAll({{"Infinity", "null"}}, &config), 1) << config;  // written as it was read
    const auto groups = nlohmann::json::parse(config)["quantization_config"]["config_groups"];
    EXPECT_TRUE(groups["group_0"]["weights"]["actorder"].is_null());  // readers refuse an order of whole rows
    before = PerplexityIn(result.out, "before");
    after[by_activity ? 1 : 0] = PerplexityIn(result.out, "after");
  }
  ASSERT_GT(before, 10.0);
  for (const double value : after) {
    EXPECT_NE(value, before);
    EXPECT_LT(value, 1.3 * before);
    EXPECT_GT(value, 0.7 * before);
  }
}

TEST(QuantizeTest, ProjectionsOfShortConvolutionsAreQuantised) {
  const engine::TempDirectory temp;
  const std::string model = DUNLIN_SOURCE_DIR "/tests/golden/models/lfm2_tiny";
  const CommandResult result = RunDunlin({"quantize", model, "--to", "int8", "--out", temp.File("int8")});
  ASSERT_EQ(result.status, 0) << result.err;
  // Four MLPs of three matrices, one attention of four, and three convolutions between two.
  EXPECT_THAT(result.out, HasSubstr("22 matrices of"));
  EXPECT_EQ(RunDunlin({"inspect", temp.File("int8")}).status, 0);
}

TEST(QuantizeTest, WhatCannotBeQuantisedIsRefused) {
  const engine::TempDirectory temp;
  const engine::TempDirectory llama;
  WriteLlama(llama);
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "quantize");
    const CommandResult result = RunDunlin(arguments);
    EXPECT_NE(result.status, 0);
    return result.err;
  };
  const std::string out = temp.File("out");
  EXPECT_THAT(refusal({kDemoModel, "--to", "int4", "--out", out}),
              HasSubstr("is stored [in_features, out_features], which compressed-tensors has no layout for"));
  EXPECT_FALSE(std::filesystem::exists(out));
  const CommandResult calibrated =
      RunDunlin({"quantize", kDemoModel, "--to", "int4", "--calibration", kHeldOutText, "--out", out});
  EXPECT_EQ(calibrated.status, 1);
  EXPECT_EQ(calibrated.out, "") << "it is refused before the text is run";
  std::ofstream(temp.File("m.gguf")) << "GGUF";
  EXPECT_THAT(refusal({temp.File("m.gguf"), "--to", "int4", "--out", out}),
              HasSubstr("m.gguf is a GGUF file; a Hugging"));
  EXPECT_THAT(refusal({llama.path(), "--to", "int3", "--out", out}), HasSubstr("int3"));
  EXPECT_THAT(refusal({llama.path(), "--to", "int4", "--act-order", "--out", out}), HasSubstr("need --calibration"));
  EXPECT_THAT(refusal({kDemoModel, "--to", "int4", "--out", llama.path()}), HasSubstr("has a model already"));
  EXPECT_THAT(refusal({llama.path(), "--to", "int4", "--calibration", temp.File("none"), "--out", out}),
              HasSubstr("none cannot be read"));
  ASSERT_EQ(
      RunDunlin({"quantize", llama.path(), "--to", "int8", "--group-size", "0", "--out", temp.File("int8")}).status, 0);
  EXPECT_THAT(refusal({llama.path(), "--to", "int4", "--group-size", "128", "--out", out}),
              HasSubstr("has 64 columns, which groups of 128 do not divide"));
  const std::string encoder = DUNLIN_SOURCE_DIR "/tests/golden/encoders/qwen3_embedding";  // pools by 1_Pooling
  ASSERT_EQ(RunDunlin({"quantize", encoder, "--to", "int8", "--group-size", "0", "--out", temp.File("encoder")}).status,
            0);
  EXPECT_EQ(RunDunlin({"inspect", temp.File("encoder")}).status, 0);
  EXPECT_THAT(refusal({temp.File("int8"), "--to", "int4", "--out", temp.File("twice")}),
              HasSubstr("is quantised already: compressed-tensors"));
}

}  // namespace
}  // namespace dunlin::integration
