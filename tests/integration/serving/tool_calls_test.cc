// SPDX-License-Identifier: Apache-2.0
// Tool calls from a chat to a client's messages: the demo model, served over gRPC on loopback.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "kernels/api/device.h"
#include "server/edge/edge.h"
#include "server/models/loader.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using Json = nlohmann::json;
using Mode = v1::ToolChoice;

constexpr uint64_t kSeeds = 50;
// The strings have bounds, so that a call ends; the names and types are those that the model was trained on.
constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city", "parameters":
    {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
     "unit": {"type": "string", "enum": ["C", "F"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
     "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "get_price", "description": "Get the price of an item", "parameters":
    {"type": "object", "properties": {"item": {"type": "string", "maxLength": 20}}, "required": ["item"],
     "additionalProperties": false}}}])";

struct Call {
  std::string id;
  std::string name;
  std::string arguments;
};

struct ToolAnswer {
  std::string text;
  std::string reasoning;
  std::vector<Call> calls;
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs;
  v1::Usage usage;
  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
  grpc::Status status;
};

void Take(const v1::GenerateResponse& message, ToolAnswer* answer) {
  answer->text += message.text_delta();
  answer->reasoning += message.reasoning_delta();
  answer->token_ids.insert(answer->token_ids.end(), message.token_ids().begin(), message.token_ids().end());
  for (const v1::ToolCallDelta& delta : message.tool_call_delta()) {
    const auto index = static_cast<size_t>(delta.tool_index());
    ASSERT_LE(index, answer->calls.size()) << "calls come one after another";
    if (index == answer->calls.size()) {
      answer->calls.push_back({delta.id(), delta.name(), ""});
    } else {
      EXPECT_TRUE(delta.id().empty() && delta.name().empty()) << "only in the first delta";
    }
    answer->calls[index].arguments += delta.arguments_delta();
  }
  for (const v1::TokenLogprob& token : message.logprobs()) answer->logprobs.push_back(token.logprob());
  if (!message.has_finish()) return;
  answer->reason = message.finish().reason();
  answer->usage = message.finish().usage();
}

void ExpectValid(const Call& call) {
  EXPECT_THAT(call.id, MatchesRegex("call_[A-Za-z0-9]{24}"));
  const Json arguments = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(arguments.is_object()) << call.arguments;
  const char* const text = call.name == "get_weather" ? "city" : "item";
  ASSERT_TRUE(call.name == "get_weather" || call.name == "get_price") << call.name;
  ASSERT_TRUE(arguments.contains(text) && arguments[text].is_string()) << call.arguments;
  size_t known = 1;
  if (call.name == "get_weather") {
    const Json unit = arguments.value("unit", Json("C"));
    EXPECT_TRUE(unit == "C" || unit == "F") << call.arguments;
    const Json days = arguments.value("days", Json(1));
    EXPECT_TRUE(days.is_number_integer() && days >= 1 && days <= 14) << call.arguments;
    known += arguments.count("unit") + arguments.count("days");
  }
  EXPECT_EQ(arguments.size(), known) << call.arguments;
}

v1::GenerateRequest Chat(const std::string& text) {
  v1::GenerateRequest request;
  request.set_model("demo");
  v1::Chat* chat = request.mutable_chat();
  v1::ChatMessage* message = chat->add_messages();
  message->set_role("user");
  message->set_content(text);
  chat->set_tools_json(kTools);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(200);
  return request;
}

v1::GenerateRequest Demanded(Mode::Mode mode, uint64_t seed) {
  v1::GenerateRequest request = Chat(seed % 2 == 0 ? "What is the weather in Lisbon?" : "Tell me about the sea.");
  request.mutable_chat()->mutable_tool_choice()->set_mode(mode);
  if (mode == Mode::MODE_NAMED) request.mutable_chat()->mutable_tool_choice()->set_name("get_weather");
  request.mutable_chat()->set_parallel_tool_calls(seed % 3 == 0);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(seed);
  request.mutable_stopping()->set_max_tokens(500);
  return request;
}

class ToolCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {2, "portable"}, &error);
    ASSERT_NE(device_, nullptr) << error;
    AddModel("demo", "auto");
    AddModel("thinking", "think_tags");
    const absl::StatusOr<int> port = edge_.Start("127.0.0.1:0", Limits(), &models_, nullptr);
    ASSERT_TRUE(port.ok()) << port.status();
    edge_.SetServing(true);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", *port), grpc::InsecureChannelCredentials());
  }
  void TearDown() override { edge_.Shutdown(absl::Now() + absl::Seconds(20)); }

  void AddModel(const std::string& name, const std::string& reasoning_parser) {
    ModelSettings settings;
    settings.name = name;
    settings.source.path = DUNLIN_SOURCE_DIR "/models/demo";
    settings.source.precisions = {engine::Precision::kFp32};
    settings.engine.kv_memory_bytes = size_t{16} << 20;
    settings.tool_parser = "auto";
    settings.reasoning_parser = reasoning_parser;
    const std::atomic<bool> stop{false};
    auto model = LoadModel(settings, device_.get(), nullptr, stop);
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(models_.Add(*std::move(model)).ok());
  }

  ToolAnswer Generate(const v1::GenerateRequest& request) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto reader = v1::GenerationService::NewStub(channel_)->Generate(&context, request);
    ToolAnswer answer;
    v1::GenerateResponse message;
    while (reader->Read(&message)) Take(message, &answer);
    answer.status = reader->Finish();
    return answer;
  }
  ToolAnswer Answered(const v1::GenerateRequest& request) const {
    ToolAnswer answer = Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    return answer;
  }
  // All at once.
  std::vector<ToolAnswer> Together(const std::vector<v1::GenerateRequest>& requests) const {
    std::vector<std::future<ToolAnswer>> running;
    running.reserve(requests.size());
    for (const v1::GenerateRequest& request : requests) {
      running.push_back(std::async(std::launch::async, [this, &request] { return Answered(request); }));
    }
    std::vector<ToolAnswer> answers;
    for (std::future<ToolAnswer>& answer : running) answers.push_back(answer.get());
    return answers;
  }

  std::unique_ptr<kernels::Device> device_;
  ModelRepository models_;
  Edge edge_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ToolCallsTest, RequiredAndNamedAreValidCallsWithEverySeed) {
  for (const Mode::Mode mode : {Mode::MODE_REQUIRED, Mode::MODE_NAMED}) {
    for (uint64_t first = 0; first < kSeeds; first += 10) {
      std::vector<v1::GenerateRequest> requests;
      for (uint64_t seed = first; seed < first + 10; ++seed) requests.push_back(Demanded(mode, seed));
      for (const ToolAnswer& answer : Together(requests)) {
        EXPECT_EQ(answer.text, "");
        ASSERT_GE(answer.calls.size(), 1U);
        EXPECT_EQ(answer.reason, v1::FINISH_REASON_TOOL_CALLS);
        for (const Call& call : answer.calls) {
          ExpectValid(call);
          EXPECT_TRUE(call.name == "get_weather" || mode == Mode::MODE_REQUIRED) << call.name;
        }
      }
    }
  }
}

TEST_F(ToolCallsTest, DeltasAreWhatTheModelWroteAndNeighboursDoNotChangeIt) {
  v1::GenerateRequest neighbour = Chat("Tell me a story.");
  neighbour.mutable_chat()->clear_tools_json();
  const ToolAnswer alone = Answered(neighbour);
  EXPECT_FALSE(alone.token_ids.empty());
  std::vector<v1::GenerateRequest> requests = {neighbour};
  for (uint64_t seed = 0; seed < 6; ++seed) {
    requests.push_back(Demanded(Mode::MODE_REQUIRED, seed));
    requests.push_back(requests.back());
    requests.back().mutable_output()->set_raw_chat_output(true);
  }
  const std::vector<ToolAnswer> answers = Together(requests);
  EXPECT_EQ(answers[0].token_ids, alone.token_ids);
  EXPECT_EQ(answers[0].text, alone.text);
  for (size_t i = 1; i < answers.size(); i += 2) {
    std::string written;
    for (const Call& call : answers[i].calls) {
      absl::StrAppend(&written, written.empty() ? "" : "\n", "<tool_call>\n{\"name\": \"", call.name,
                      "\", \"arguments\": ", call.arguments, "}\n</tool_call>");
    }
    EXPECT_EQ(answers[i + 1].text, written);
  }
}

// Tool calls, JSON and text of a regular expression, of prompts that show their like. With log-probabilities no token
// is forced.
std::vector<v1::GenerateRequest> ConstrainedRequests() {
  v1::GenerateRequest json;
  json.set_model("demo");
  json.set_text(
      R"([{"name": "Tom", "tags": ["red", "green", "red"]}, {"name": "Tom", "tags": ["red", "green", "red"]},)");
  json.mutable_stopping()->set_max_tokens(80);
  v1::GenerateRequest regex = json;
  json.mutable_structured_output()->set_json_schema(R"({"type": "object", "properties": {
      "name": {"enum": ["Tom", "Tim"]}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 9}},
      "required": ["name", "tags"], "additionalProperties": false})");
  regex.mutable_structured_output()->set_regex(R"(( ?(red|green), ){4,12}end)");
  std::vector<v1::GenerateRequest> requests;
  for (const v1::GenerateRequest& request : {Demanded(Mode::MODE_REQUIRED, 2), json, regex}) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (const bool logprobs : {false, true}) {
        requests.push_back(request);
        requests.back().mutable_sampling()->set_temperature(temperature);
        requests.back().mutable_sampling()->set_seed(requests.size());
        if (logprobs) requests.back().mutable_output()->set_logprobs(2);
      }
    }
  }
  return requests;
}

TEST_F(ToolCallsTest, GuessesChangeNoConstrainedOutput) {
  std::vector<v1::GenerateRequest> requests = ConstrainedRequests();
  for (v1::GenerateRequest& request : requests) request.mutable_execution()->set_speculation("off");
  const std::vector<ToolAnswer> plain = Together(requests);
  for (v1::GenerateRequest& request : requests) request.mutable_execution()->set_speculation("8");
  const std::vector<ToolAnswer> guessed = Together(requests);
  int32_t accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    EXPECT_EQ(guessed[i].token_ids, plain[i].token_ids);
    EXPECT_EQ(guessed[i].logprobs, plain[i].logprobs);
    EXPECT_EQ(guessed[i].logprobs.empty(), !requests[i].output().has_logprobs());
    EXPECT_EQ(guessed[i].reason, plain[i].reason);
    EXPECT_EQ(plain[i].usage.drafted_tokens(), 0);
    accepted += guessed[i].usage.accepted_tokens();
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(ToolCallsTest, AutoLetsTheModelDecideAndNoneHidesTheTools) {
  const ToolAnswer called = Answered(Chat("What is the weather in Lisbon?"));
  ASSERT_EQ(called.calls.size(), 1U) << called.text;
  EXPECT_EQ(called.calls[0].name, "get_weather");
  EXPECT_EQ(Json::parse(called.calls[0].arguments), Json({{"city", "Lisbon"}}));
  EXPECT_EQ(called.text, "");
  EXPECT_EQ(called.reason, v1::FINISH_REASON_TOOL_CALLS);
  v1::GenerateRequest none = Chat("What is the weather in Lisbon?");
  none.mutable_chat()->mutable_tool_choice()->set_mode(Mode::MODE_NONE);
  const ToolAnswer answered = Answered(none);
  EXPECT_TRUE(answered.calls.empty());
  EXPECT_NE(answered.text, "");
  EXPECT_EQ(answered.reason, v1::FINISH_REASON_STOP);
}

TEST_F(ToolCallsTest, StructuredOutputConstrainsWhatFollowsTheReasoning) {
  v1::GenerateRequest request = Chat("Yes or no?");
  request.set_model("thinking");
  request.mutable_chat()->clear_tools_json();
  for (const char* text : {"yes", "no"}) request.mutable_structured_output()->mutable_choice()->add_texts(text);
  const ToolAnswer answered = Answered(request);
  EXPECT_TRUE(answered.text == "yes" || answered.text == "no" || !answered.reasoning.empty()) << answered.text;
  v1::ChatMessage* begun = request.mutable_chat()->add_messages();
  begun->set_role("assistant");
  begun->set_content("<think>");
  request.mutable_chat()->set_continue_final_message(true);
  request.mutable_stopping()->set_max_tokens(12);
  const ToolAnswer thinks = Answered(request);
  EXPECT_NE(thinks.reasoning, "") << "free until its end";
  EXPECT_EQ(thinks.text, "");
  EXPECT_EQ(thinks.reason, v1::FINISH_REASON_LENGTH);
}

TEST_F(ToolCallsTest, RefusalsNameTheFieldsOfTheRequest) {
  v1::GenerateRequest request = Demanded(Mode::MODE_REQUIRED, 0);
  request.mutable_chat()->set_tools_json(R"([{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}])");
  const grpc::Status of_tools = Generate(request).status;
  EXPECT_EQ(of_tools.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(of_tools.error_message(),
            "chat.tools_json in function \"f\" has \"not\" at #/properties/a, which is not supported");
  request = Chat("x");
  request.set_model("thinking");
  request.mutable_structured_output()->set_json_schema(R"({"not": {}})");
  const grpc::Status of_schema = Generate(request).status;
  EXPECT_EQ(of_schema.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(of_schema.error_message(), HasSubstr("structured_output.json_schema has \"not\""));
}

TEST_F(ToolCallsTest, GetModelNamesTheForms) {
  for (const auto& [name, reasoning] : {std::pair("demo", "none"), std::pair("thinking", "think_tags")}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::GetModelRequest request;
    request.set_name(name);
    v1::GetModelResponse response;
    ASSERT_TRUE(v1::ModelService::NewStub(channel_)->GetModel(&context, request, &response).ok());
    EXPECT_EQ(response.model().chat().tool_parser(), "hermes");
    EXPECT_EQ(response.model().chat().reasoning_parser(), reasoning);
  }
}

}  // namespace
}  // namespace dunlin::server
