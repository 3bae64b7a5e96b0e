// SPDX-License-Identifier: Apache-2.0
// Structured output from request to text: the demo model, served as in production but for the transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/api/device.h"
#include "server/models/loader.h"
#include "tests/server/serving/fake_front.h"

namespace dunlin::server {
namespace {

using engine::FinishReason;
using text::GrammarKind;

constexpr char kSchema[] = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}}, "required": ["name", "age", "tags"]})";

ClientRequest Prompt(const std::string& text) {
  ClientRequest request;
  request.model = "demo";
  request.prompt = text;
  request.sampling.temperature = 0.0F;
  request.sampling.seed = 5;
  request.stopping.max_tokens = 100;
  return request;
}

ClientRequest Json(float temperature, int num_outputs) {
  ClientRequest request = Prompt("Once upon a time");
  request.structured_output = text::GrammarSource{GrammarKind::kJsonSchema, kSchema, {}};
  request.sampling.temperature = temperature;
  request.num_outputs = num_outputs;
  return request;
}

void ExpectPerson(const FakeOutput& output) {
  const auto value = nlohmann::json::parse(output.text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(value.is_object()) << output.text;
  EXPECT_EQ(value.size(), 3U) << output.text;
  EXPECT_TRUE(value["name"].is_string()) << output.text;
  EXPECT_TRUE(value["age"].is_number_integer() && value["age"] <= 120) << output.text;
  for (const auto& tag : value["tags"]) EXPECT_TRUE(tag == "red" || tag == "green") << output.text;
  EXPECT_EQ(output.finish.reason, FinishReason::kStop);
}

class StructuredOutputServedTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {2, "portable"}, &error);
    ASSERT_NE(device_, nullptr) << error;
    ModelSettings settings;
    settings.name = "demo";
    settings.source.path = DUNLIN_SOURCE_DIR "/models/demo";
    settings.source.precisions = {engine::Precision::kFp32};
    settings.engine.kv_memory_bytes = size_t{16} << 20;
    settings.tool_parser = "auto";
    settings.reasoning_parser = "auto";
    const std::atomic<bool> stop{false};
    auto model = LoadModel(settings, device_.get(), nullptr, stop);
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(models_.Add(*std::move(model)).ok());
    core_ = std::make_unique<ServingCore>(Limits(), models_, nullptr, ServingOptions());
    core_->Open();
  }

  // A call that was stopped by its text still ends in the engine.
  void TearDown() override { EXPECT_TRUE(core_->WaitUntilIdle(absl::Now() + absl::Seconds(20))); }

  std::vector<FakeResponse> Run(const std::vector<ClientRequest>& requests) {
    std::vector<std::shared_ptr<FakeGenerateCall>> calls;
    for (const ClientRequest& request : requests) {
      calls.push_back(std::make_shared<FakeGenerateCall>(request));
      FakeGenerateCall::Start(core_.get(), calls.back());
    }
    std::vector<FakeResponse> responses;
    for (const auto& call : calls) {
      responses.push_back(call->WaitUntilFinished());
      EXPECT_TRUE(responses.back().status.ok()) << responses.back().status;
    }
    return responses;
  }

  std::unique_ptr<kernels::Device> device_;
  ModelRepository models_;
  std::unique_ptr<ServingCore> core_;
};

TEST_F(StructuredOutputServedTest, EveryOutputMatchesTheSchemaGreedyAndDrawn) {
  for (const float temperature : {0.0F, 1.5F}) {
    const std::vector<FakeResponse> responses = Run({Json(temperature, 2)});
    ASSERT_EQ(responses[0].outputs.size(), 2U);
    for (const auto& [index, output] : responses[0].outputs) ExpectPerson(output);
  }
}

TEST_F(StructuredOutputServedTest, NeitherItNorItsNeighboursDependOnEachOther) {
  const ClientRequest free = Prompt("The little dog");
  const std::vector<FakeResponse> alone = {Run({free})[0], Run({Json(1.0F, 1)})[0]};
  const std::vector<FakeResponse> together = Run({free, Json(1.0F, 1), Json(0.5F, 2), free});
  EXPECT_EQ(together[0].outputs.at(0).token_ids, alone[0].outputs.at(0).token_ids);
  EXPECT_EQ(together[1].outputs.at(0).token_ids, alone[1].outputs.at(0).token_ids);
  EXPECT_EQ(together[3].outputs.at(0).token_ids, alone[0].outputs.at(0).token_ids);
}

TEST_F(StructuredOutputServedTest, EveryEndInsideTheGrammarHasItsReason) {
  ClientRequest length = Json(0.0F, 1);
  length.stopping.max_tokens = 3;
  ClientRequest stop = Json(0.0F, 1);
  stop.stopping.stop = {"\"age\""};
  ClientRequest no_end = Prompt("Yes or no?");
  no_end.structured_output = text::GrammarSource{GrammarKind::kChoice, "", {"yes", "no"}};
  no_end.stopping.ignore_eos = true;
  ClientRequest none_left = no_end;
  none_left.sampling.allowed_token_ids = {5};
  const std::vector<FakeResponse> responses = Run({length, stop, no_end, none_left});
  EXPECT_EQ(responses[0].outputs.at(0).finish.reason, FinishReason::kLength);
  EXPECT_EQ(responses[1].outputs.at(0).finish.reason, FinishReason::kStop);
  EXPECT_EQ(responses[1].outputs.at(0).text.find("\"age\""), std::string::npos);
  EXPECT_EQ(responses[2].outputs.at(0).finish.reason, FinishReason::kStop) << "ignore_eos does not apply";
  EXPECT_TRUE(responses[2].outputs.at(0).text == "yes" || responses[2].outputs.at(0).text == "no");
  EXPECT_EQ(responses[3].outputs.at(0).finish.reason, FinishReason::kConstraint);
  EXPECT_EQ(responses[3].outputs.at(0).finish.constraint_error, "") << "no bound, but no token";
}

// The neighbour has all its tokens, the same as alone; what it waits for is counted in text_rust.
TEST_F(StructuredOutputServedTest, AnAmbiguousGrammarEndsWithItsBoundAndItsNeighbourGoesOn) {
  const ClientRequest free = Prompt("The little dog");
  const FakeResponse alone = Run({free})[0];
  ClientRequest attack = Prompt("ab");
  attack.structured_output =
      text::GrammarSource{GrammarKind::kGrammar, "start: x+\nx: x x | y?\ny: \"a\"? \"b\"? \"a\"? x?", {}};
  attack.stopping.min_tokens = 900;  // the text may end anywhere
  attack.stopping.max_tokens = 900;
  const std::vector<FakeResponse> together = Run({free, attack, free});
  EXPECT_EQ(together[0].outputs.at(0).token_ids, alone.outputs.at(0).token_ids);
  EXPECT_EQ(together[2].outputs.at(0).token_ids, alone.outputs.at(0).token_ids);
  const FakeOutput& output = together[1].outputs.at(0);
  EXPECT_EQ(output.finish.reason, FinishReason::kConstraint);
  EXPECT_LT(output.token_ids.size(), 300U);
  EXPECT_THAT(output.finish.constraint_error, testing::HasSubstr("the grammar is too ambiguous to continue"));
  EXPECT_THAT(output.finish.constraint_error, testing::HasSubstr("limit is 250 ms"));
}

}  // namespace
}  // namespace dunlin::server
