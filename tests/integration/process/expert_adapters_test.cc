// SPDX-License-Identifier: Apache-2.0
// Adapters of experts, routers, shared experts, latent attention and heads in a served process: the probabilities are
// PEFT's, whether the config or a call has loaded them; they come and go while others answer; what does not fit a model
// is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/process/adapters_fixture.h"

namespace dunlin::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kTolerance = 5e-4;  // of a log-probability; logits are within 1e-4

std::string GoldenModel(const std::string& name) {
  return absl::StrCat(DUNLIN_SOURCE_DIR, "/tests/golden/models/", name);
}
std::string GoldenAdapter(const std::string& name) {
  return absl::StrCat(DUNLIN_SOURCE_DIR, "/tests/golden/adapters/", name);
}

// PEFT's logits of the adapter after some of the tokens of a prompt.
struct Golden {
  std::vector<int> tokens;
  std::vector<size_t> positions;
  std::vector<std::vector<double>> log_probabilities;  // of each position
};

Golden ReadGolden(const std::string& adapter) {
  std::ifstream file(GoldenAdapter(adapter) + "/goldens.json");
  const nlohmann::json prompt = nlohmann::json::parse(file)["prompts"][0];
  Golden golden{.tokens = prompt["tokens"], .positions = {}, .log_probabilities = {}};
  for (const nlohmann::json& row : prompt["logits"]) {
    std::vector<double> values = row["values"];
    double sum = 0;
    for (const double value : values) sum += std::exp(value);
    for (double& value : values) value -= std::log(sum);
    golden.positions.push_back(row["position"]);
    golden.log_probabilities.push_back(std::move(values));
  }
  return golden;
}

class ExpertAdapters : public testing::Test {
 protected:
  static nlohmann::json Model(const std::string& name, const std::string& golden,
                              const std::vector<std::string>& adapters) {
    nlohmann::json settings = LiveFolder::Model(name, GoldenModel(golden));
    settings["max_adapters"] = 2;
    settings["adapters"] = nlohmann::json::array();
    for (const std::string& adapter : adapters) {
      settings["adapters"].push_back({{"name", adapter}, {"path", GoldenAdapter(adapter)}});
    }
    return settings;
  }
  std::unique_ptr<ServerProcess> Serve(const std::vector<nlohmann::json>& models) {
    folder_.WriteConfig(models);
    auto server =
        std::make_unique<ServerProcess>(folder_.config(), std::vector<std::string>{"--set", kMayChangeModels});
    EXPECT_TRUE(server->ready()) << server->Log();
    return server;
  }
  // A copy of an adapter whose file has other bytes, as many, wherever it has these. Returns its path.
  std::string Changed(const std::string& name, const std::string& adapter, const std::string& from,
                      const std::string& to) const {
    const std::string copy = folder_.path(name);
    std::filesystem::copy(GoldenAdapter(adapter), copy);
    std::ifstream in(copy + "/adapter_model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(from.size(), to.size());
    EXPECT_GT(absl::StrReplaceAll({{from, to}}, &bytes), 0) << from;
    std::ofstream(copy + "/adapter_model.safetensors", std::ios::binary) << bytes;
    return copy;
  }

  const LiveFolder folder_{"expert_adapters"};
};

// The models have no tokenizer: prompts and answers are token ids.
nlohmann::json Complete(const ServerProcess& server, const std::string& model, const std::vector<int>& tokens) {
  return JsonOf(PostOnce(server.http(), "/v1/completions",
                         nlohmann::json{{"model", model},
                                        {"prompt", tokens},
                                        {"max_tokens", 8},
                                        {"temperature", 0},
                                        {"ignore_eos", true},
                                        {"return_token_ids", true}}
                             .dump()));
}
// Of eight tokens; the error where there is none.
std::string AnswerOf(const nlohmann::json& completion) {
  return completion.contains("choices") ? completion["choices"][0]["token_ids"].dump() : completion.dump();
}
std::string Ask(const ServerProcess& server, const std::string& model) {
  return AnswerOf(Complete(server, model, {1, 5, 9, 12}));
}

void ExpectProbabilities(const nlohmann::json& scores, const std::vector<double>& golden) {
  ASSERT_EQ(scores["top"].size(), 20U) << scores.dump();
  EXPECT_NEAR(scores["top"][0]["logprob"].get<double>(), *std::ranges::max_element(golden), kTolerance);
  for (const nlohmann::json& token : scores["top"]) {
    const auto id = token["token_id"].get<size_t>();
    ASSERT_LT(id, golden.size());
    EXPECT_NEAR(token["logprob"].get<double>(), golden[id], kTolerance) << "token " << id;
  }
}

// By `dunlin generate` what follows each of the golden's tokens, and by OpenAI's API what follows the last one.
void ExpectAnswersOfPeft(const ServerProcess& server, const std::string& adapter) {
  const Golden golden = ReadGolden(adapter);
  const CommandResult asked = RunDunlin({"generate", "--address", server.grpc(), "--model", adapter, "--token-ids",
                                         absl::StrJoin(golden.tokens, ","), "--max-tokens", "1", "--temperature", "0",
                                         "--json", "--logprobs", "20", "--prompt-logprobs", "20"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  const nlohmann::json answer = nlohmann::json::parse(asked.out);
  ASSERT_EQ(golden.positions.size(), 3U);
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    const size_t position = golden.positions[i];
    SCOPED_TRACE(absl::StrCat(adapter, ", after token ", position));
    const bool last = position + 1 == golden.tokens.size();
    ExpectProbabilities(last ? answer["logprobs"][0] : answer["prompt_logprobs"][position],
                        golden.log_probabilities[i]);
  }
  ASSERT_EQ(golden.positions.back() + 1, golden.tokens.size());
  const std::vector<double>& next = golden.log_probabilities.back();
  const nlohmann::json completion = Complete(server, adapter, golden.tokens);
  EXPECT_THAT(AnswerOf(completion), StartsWith(absl::StrCat("[", std::ranges::max_element(next) - next.begin(), ",")));
  EXPECT_EQ(completion["dunlin"]["execution"]["adapter"], adapter);
}

TEST_F(ExpertAdapters, ThoseOfTheConfigAnswerAsPeftDoes) {
  const auto server = Serve({Model("experts", "mixtral_tiny", {"mixtral_tiny", "mixtral_modules"}),
                             Model("shared", "qwen2_moe_tiny", {"qwen2_moe_tiny"}),
                             Model("latent", "deepseek_v3_tiny", {"deepseek_v3_tiny"}),
                             Model("head", "llama_gqa", {"llama_gqa_head"})});
  for (const char* adapter :
       {"mixtral_tiny", "mixtral_modules", "qwen2_moe_tiny", "deepseek_v3_tiny", "llama_gqa_head"}) {
    ExpectAnswersOfPeft(*server, adapter);
  }
}

TEST_F(ExpertAdapters, OneComesAndGoesWhileOthersAnswer) {
  const auto server = Serve({Model("experts", "mixtral_tiny", {"mixtral_tiny"})});
  const std::string base = Ask(*server, "experts");
  const std::string first = Ask(*server, "mixtral_tiny");
  EXPECT_NE(first, base);
  std::atomic<bool> ends{false};
  int answered = 0;
  std::thread others([&] {
    for (; !ends || answered < 4; answered += 2) {
      EXPECT_EQ(Ask(*server, "mixtral_tiny"), first);
      EXPECT_EQ(Ask(*server, "experts"), base);
    }
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(LoadByHttp(*server, "called", GoldenAdapter("mixtral_modules")), StartsWith("HTTP/1.1 200 "));
    const std::string called = Ask(*server, "called");
    EXPECT_NE(called, first);
    EXPECT_NE(called, base);
    const nlohmann::json list = JsonOf(GetOnce(server->http(), "/v1/models"))["data"];
    ASSERT_EQ(list.size(), 3U);
    EXPECT_EQ(list[1]["id"], "called");
    EXPECT_EQ(list[1]["parent"], "experts");
    EXPECT_EQ(list[1]["root"], GoldenAdapter("mixtral_modules"));
    EXPECT_THAT(UnloadByHttp(*server, "called"), StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(Ask(*server, "called"), HasSubstr("UNKNOWN_MODEL"));
  }
  ends = true;
  others.join();
  EXPECT_EQ(JsonOf(GetOnce(server->http(), "/v1/models"))["data"].size(), 2U);
}

TEST_F(ExpertAdapters, WhatDoesNotFitIsRefusedByName) {
  const auto server = Serve({Model("experts", "mixtral_tiny", {"mixtral_tiny"})});
  const std::string first = Ask(*server, "mixtral_tiny");
  const std::string modules = "mixtral_modules";
  const struct {
    std::string path;
    const char* says;
  } kRows[] = {
      {GoldenAdapter("qwen3_moe_tiny"), "has shape [16, 32]; 6 experts have the same rank each, at least 1"},
      {GoldenAdapter("qwen3_moe_modules"), "v_proj.lora_B.weight' has shape [24, 4]; the model makes it [16, 4]"},
      {GoldenAdapter("deepseek_v3_tiny"), "is none that adapters of this model may change"},
      {Changed("more", modules, "experts.1.", "experts.6."), "experts.6.w1' is none that adapters of this model"},
      {Changed("half", modules, "experts.1.w1.lora_A", "experts.6.w1.lora_A"), "experts.1.w1' lacks its lora_A.weight"},
      {Changed("other", modules, "experts.1.w1.lora_B", "experts.1.w1.lora_X"), "experts.1.w1.lora_X"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(LoadByHttp(*server, "other", row.path), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr(row.says)));
    EXPECT_THAT(Ask(*server, "other"), HasSubstr("UNKNOWN_MODEL"));
  }
  EXPECT_EQ(Ask(*server, "mixtral_tiny"), first);
}

TEST_F(ExpertAdapters, OneThatDoesNotFitRefusesTheStart) {
  folder_.WriteConfig({Model("experts", "mixtral_tiny", {"mixtral_tiny", "qwen3_moe_tiny"})});
  const CommandResult refused = RunDunlin(
      {"serve", "--config", folder_.config(), "--set", "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("cannot start: "), HasSubstr("adapter \"qwen3_moe_tiny\""),
                                 HasSubstr("6 experts have the same rank each")));
}

}  // namespace
}  // namespace dunlin::integration
