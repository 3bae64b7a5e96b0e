// SPDX-License-Identifier: Apache-2.0
// Tool calls and reasoning as each route shows them: the same calls, with the same arguments, as over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::SizeIs;

using Calls = std::vector<std::pair<std::string, Json>>;  // name and arguments

constexpr char kParameters[] = R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})";
constexpr char kQuestion[] = R"("messages":[{"role":"user","content":"What is the weather in Lisbon?"}])";

std::string ChatTools() {
  return absl::StrCat(R"([{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":)",
                      kParameters, "}}]");
}

Calls CallsOf(const Reply& reply) {
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::vector<std::pair<std::string, std::string>> texts;
  for (const v1::GenerateResponse& message : reply.messages) {
    for (const v1::ToolCallDelta& delta : message.tool_call_delta()) {
      texts.resize(std::max<size_t>(texts.size(), static_cast<size_t>(delta.tool_index()) + 1));
      texts[static_cast<size_t>(delta.tool_index())].first += delta.name();
      texts[static_cast<size_t>(delta.tool_index())].second += delta.arguments_delta();
    }
  }
  Calls calls;
  for (const auto& [name, arguments] : texts) calls.emplace_back(name, Json::parse(arguments));
  return calls;
}

constexpr char kWeather[] = "What is the weather in Lisbon?";

// chat: further fields of the chat.
Calls OfGrpc(const std::string& question, const Json& chat = Json::object()) {
  Json request = {{"model", "demo"}, {"sampling", {{"temperature", 0}}}, {"stopping", {{"maxTokens", 60}}}};
  request["chat"] = chat;
  request["chat"]["messages"] = Json::array({{{"role", "user"}, {"content", question}}});
  request["chat"]["toolsJson"] = ChatTools();
  return CallsOf(ServedEdge::Get().Generate(request.dump()));
}

TEST(ToolCalls, OfChatCompletionsAreThoseOfGrpc) {
  const Calls expected = OfGrpc(kWeather);
  ASSERT_THAT(expected, SizeIs(1)) << "the demo model no longer calls this tool";
  const std::string fields =
      absl::StrCat(R"("model":"demo","temperature":0,"max_tokens":60,)", kQuestion, ",\"tools\":", ChatTools());
  const Json whole = ServedEdge::Get().Post("/v1/chat/completions", absl::StrCat("{", fields, "}")).json();
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_THAT(choice["message"]["tool_calls"], SizeIs(1));
  const Json& function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], expected[0].first);
  EXPECT_EQ(Json::parse(function["arguments"].get<std::string>()), expected[0].second);

  std::string name;
  std::string arguments;
  std::string finish;
  const HttpAnswer stream =
      ServedEdge::Get().Post("/v1/chat/completions", absl::StrCat("{", fields, R"(,"stream":true})"));
  for (const Json& event : stream.events()) {
    const Json& delta = event["choices"][0]["delta"];
    if (!event["choices"][0]["finish_reason"].is_null()) finish = event["choices"][0]["finish_reason"];
    if (!delta.contains("tool_calls")) continue;
    name += delta["tool_calls"][0]["function"].value("name", "");
    arguments += delta["tool_calls"][0]["function"].value("arguments", "");
  }
  EXPECT_EQ(name, expected[0].first);
  EXPECT_EQ(Json::parse(arguments), expected[0].second);
  EXPECT_EQ(finish, "tool_calls");
}

TEST(ToolCalls, OfResponsesAndMessagesAreThoseOfGrpc) {
  const Calls expected = OfGrpc(kWeather);
  ASSERT_THAT(expected, SizeIs(1));
  const Json response =
      ServedEdge::Get()
          .Post("/v1/responses",
                absl::StrCat(
                    R"({"model":"demo","temperature":0,"max_output_tokens":60,)",
                    R"("input":"What is the weather in Lisbon?","tools":[{"type":"function","name":"get_weather",)",
                    R"("description":"Weather","parameters":)", kParameters, "}]}"))
          .json();
  const Json& call = response["output"].back();
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], expected[0].first);
  EXPECT_EQ(Json::parse(call["arguments"].get<std::string>()), expected[0].second);

  const Json message =
      ServedEdge::Get()
          .Post("/v1/messages",
                absl::StrCat(R"({"model":"demo","temperature":0,"max_tokens":60,)", kQuestion,
                             R"(,"tools":[{"name":"get_weather","description":"Weather","input_schema":)", kParameters,
                             "}]}"))
          .json();
  EXPECT_EQ(message["stop_reason"], "tool_use");
  const Json& use = message["content"].back();
  EXPECT_EQ(use["type"], "tool_use");
  EXPECT_EQ(use["name"], expected[0].first);
  EXPECT_EQ(use["input"], expected[0].second);
}

// A question that the model answers without a tool.
TEST(ToolCalls, ThatARequestDemandsAreThoseOfGrpc) {
  const ServedEdge& edge = ServedEdge::Get();
  const Calls expected = OfGrpc("Hello", {{"toolChoice", {{"mode", "MODE_REQUIRED"}}}, {"parallelToolCalls", false}});
  ASSERT_THAT(expected, SizeIs(1));
  const std::string chat =
      absl::StrCat(R"({"model":"demo","temperature":0,"max_tokens":60,"parallel_tool_calls":false,)",
                   R"("messages":[{"role":"user","content":"Hello"}],"tools":)", ChatTools(), ",\"tool_choice\":");
  for (const char* choice : {R"("required"})", R"({"type":"function","function":{"name":"get_weather"}}})"}) {
    const Json json = edge.Post("/v1/chat/completions", chat + choice).json();
    const Json& function = json["choices"][0]["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], expected[0].first) << json;
    EXPECT_EQ(Json::parse(function["arguments"].get<std::string>()), expected[0].second) << json;
  }
  const Json message =
      edge.Post("/v1/messages",
                absl::StrCat(R"({"model":"demo","temperature":0,"max_tokens":60,"messages":[{"role":"user",)",
                             R"("content":"Hello"}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},)",
                             R"("tools":[{"name":"get_weather","description":"Weather","input_schema":)", kParameters,
                             "}]}"))
          .json();
  EXPECT_EQ(message["content"].back()["input"], expected[0].second) << message;
}

TEST(ToolCalls, OfAChoiceOfNoneAreNoneAtAll) {
  const Json json = ServedEdge::Get()
                        .Post("/v1/chat/completions",
                              absl::StrCat(R"({"model":"demo","temperature":0,"max_tokens":30,"tool_choice":"none",)",
                                           kQuestion, ",\"tools\":", ChatTools(), "}"))
                        .json();
  EXPECT_FALSE(json["choices"][0]["message"].contains("tool_calls")) << json;
}

}  // namespace
}  // namespace dunlin::server
