// SPDX-License-Identifier: Apache-2.0
// The same request over gRPC and over every route of HTTP that can say it, streamed and not: the same texts, token ids,
// log-probabilities, finish reasons and usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One choice as a client of HTTP sees it.
struct Choice {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs;
  std::string finish;
};

const char* FinishName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_TOOL_CALLS:
      return "tool_calls";
    default:
      return "length";
  }
}

void TakeLogprobs(const Json& logprobs, Choice* choice) {
  if (logprobs.is_null()) return;
  if (logprobs.contains("token_logprobs")) {
    for (const Json& score : logprobs["token_logprobs"]) choice->logprobs.push_back(score);
    return;
  }
  for (const Json& score : logprobs["content"]) choice->logprobs.push_back(score["logprob"]);
}

void TakeChoice(const Json& json, std::map<int, Choice>* choices) {
  Choice& choice = (*choices)[json["index"].get<int>()];
  const Json message = json.contains("delta") ? json["delta"] : json.value("message", Json::object());
  choice.text += json.value("text", std::string());
  if (message.contains("content") && !message["content"].is_null()) choice.text += message["content"];
  for (const Json& id : json["token_ids"]) choice.token_ids.push_back(id);
  TakeLogprobs(json["logprobs"], &choice);
  if (!json["finish_reason"].is_null()) choice.finish = json["finish_reason"];
}

struct Expected {
  std::map<int, Choice> choices;
  int prompt_tokens = 0;
  int completion_tokens = 0;
};

Expected Take(const Reply& reply) {
  Expected expected;
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  for (const auto& [index, output] : reply.outputs) {
    expected.choices[index] = {output.text, output.token_ids, output.logprobs, FinishName(output.finish.reason())};
    expected.prompt_tokens = output.finish.usage().prompt_tokens();
    expected.completion_tokens += output.finish.usage().completion_tokens();
  }
  return expected;
}

void ExpectChoices(const std::map<int, Choice>& actual, const Expected& expected) {
  ASSERT_EQ(actual.size(), expected.choices.size());
  for (const auto& [index, choice] : actual) {
    const Choice& wanted = expected.choices.at(index);
    EXPECT_EQ(choice.text, wanted.text) << index;
    EXPECT_EQ(choice.token_ids, wanted.token_ids) << index;
    EXPECT_EQ(choice.finish, wanted.finish) << index;
    ASSERT_EQ(choice.logprobs.size(), wanted.logprobs.size()) << index;
    for (size_t i = 0; i < wanted.logprobs.size(); ++i) EXPECT_EQ(choice.logprobs[i], wanted.logprobs[i]) << i;
  }
}

void ExpectUsage(const Json& usage, const Expected& expected) {
  EXPECT_EQ(usage["prompt_tokens"], expected.prompt_tokens);
  EXPECT_EQ(usage["completion_tokens"], expected.completion_tokens);
  EXPECT_EQ(usage["total_tokens"], expected.prompt_tokens + expected.completion_tokens);
}

void ExpectSame(const std::string& path, const std::string& fields, const Expected& expected) {
  const ServedEdge& edge = ServedEdge::Get();
  const HttpAnswer whole = edge.Post(path, absl::StrCat("{", fields, R"(,"return_token_ids":true})"));
  ASSERT_EQ(whole.status, 200) << whole.body;
  std::map<int, Choice> choices;
  const Json document = whole.json();
  for (const Json& choice : document["choices"]) TakeChoice(choice, &choices);
  ExpectChoices(choices, expected);
  ExpectUsage(document["usage"], expected);

  const HttpAnswer stream = edge.Post(
      path,
      absl::StrCat("{", fields, R"(,"return_token_ids":true,"stream":true,"stream_options":{"include_usage":true}})"));
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_THAT(stream.head, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(stream.body, EndsWith("data: [DONE]\n\n"));
  choices.clear();
  const std::vector<Json> events = stream.events();
  for (const Json& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    for (const Json& choice : event["choices"]) TakeChoice(choice, &choices);
  }
  ExpectChoices(choices, expected);
  EXPECT_TRUE(events.back()["choices"].empty());
  ExpectUsage(events.back()["usage"], expected);
}

// What a request says besides its prompt: as fields of HTTP, and as those of GenerateRequest.
struct Row {
  const char* name;
  const char* http;
  const char* wire;
  bool completions_only = false;
  bool chat_only = false;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

const Row kRows[] = {
    {"Greedy", R"("temperature":0,"max_tokens":12)", R"("sampling":{"temperature":0},"stopping":{"maxTokens":12})"},
    {"Seeded", R"("temperature":1.2,"top_p":0.9,"top_k":40,"min_p":0.01,"seed":7,"max_tokens":12)",
     R"("sampling":{"temperature":1.2,"topP":0.9,"topK":40,"minP":0.01,"seed":"7"},"stopping":{"maxTokens":12})"},
    {"Penalised",
     R"("temperature":0,"repetition_penalty":1.3,"presence_penalty":0.5,"frequency_penalty":-0.25,"max_tokens":12)",
     R"("sampling":{"temperature":0,"repetitionPenalty":1.3,"presencePenalty":0.5,"frequencyPenalty":-0.25},
        "stopping":{"maxTokens":12})"},
    {"SeveralOutputs", R"("n":3,"seed":11,"max_tokens":9)",
     R"("sampling":{"n":3,"seed":"11"},"stopping":{"maxTokens":9})"},
    {"Stopped", R"("temperature":0,"max_tokens":40,"stop":["s ","."])",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":40,"stop":["s ","."]})"},
    {"StopKept", R"("temperature":0,"max_tokens":40,"stop":".","include_stop_str_in_output":true)",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":40,"stop":["."],"includeStop":true})"},
    {"Lengths", R"("temperature":0,"max_tokens":30,"min_tokens":25,"ignore_eos":true,"stop_token_ids":[13])",
     R"("sampling":{"temperature":0},
        "stopping":{"maxTokens":30,"minTokens":25,"ignoreEos":true,"stopTokenIds":[13]})"},
    {"Biased", R"("temperature":0,"max_tokens":8,"logit_bias":{"323":12.5,"300":-100})",
     R"("sampling":{"temperature":0,"logitBias":{"323":12.5,"300":-100}},"stopping":{"maxTokens":8})"},
    {"Scored", R"("temperature":0,"max_tokens":8,"logprobs":3)",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":8},"output":{"logprobs":3})", true},
    {"ChatScored", R"("temperature":0,"max_tokens":8,"logprobs":true,"top_logprobs":3)",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":8},"output":{"logprobs":3})", false, true},
    {"Echoed", R"("temperature":0,"max_tokens":8,"echo":true)",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":8},"output":{"echo":true})"},
    {"Math", R"("temperature":0,"max_tokens":8,"attention_backend":"math","precision":"fp32","allow_fallback":true)",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":8},
        "execution":{"attentionBackend":"ATTENTION_BACKEND_MATH","precision":"PRECISION_FP32","allowFallback":true})"},
    {"Efficient", R"("temperature":0,"max_tokens":8,"attention_backend":"efficient","precision":"bf16")",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":8},
        "execution":{"attentionBackend":"ATTENTION_BACKEND_EFFICIENT","precision":"PRECISION_BF16"})"},
    {"Object", R"("temperature":0,"max_tokens":60,"response_format":{"type":"json_object"})",
     R"("sampling":{"temperature":0},"stopping":{"maxTokens":60},"structuredOutput":{"jsonObject":true})"},
    {"Schema",
     R"("seed":3,"max_tokens":60,"response_format":{"type":"json_schema","json_schema":{"name":"bird","strict":true,
        "schema":{"type":"object","properties":{"legs":{"enum":[2,4]}},"required":["legs"]}}})",
     R"("sampling":{"seed":"3"},"stopping":{"maxTokens":60},"structuredOutput":{"jsonSchema":
        "{\"type\":\"object\",\"properties\":{\"legs\":{\"enum\":[2,4]}},\"required\":[\"legs\"]}"})"},
};

std::string Wire(const Row& row, const std::string& prompt) {
  return absl::StrCat(R"({"model":"demo",)", prompt, ",", row.wire, "}");
}

class Parity : public testing::TestWithParam<Row> {};

TEST_P(Parity, OfCompletions) {
  const Row& row = GetParam();
  if (row.chat_only) return;
  const Expected expected = Take(ServedEdge::Get().Generate(Wire(row, R"("text":"The dunlin is")")));
  ExpectSame("/v1/completions", absl::StrCat(R"("model":"demo","prompt":"The dunlin is",)", row.http), expected);
}

constexpr char kMessages[] = R"("messages":[{"role":"user","content":"What does the dunlin eat?"}])";

TEST_P(Parity, OfChatCompletions) {
  const Row& row = GetParam();
  if (row.completions_only) return;
  const Expected expected = Take(ServedEdge::Get().Generate(Wire(row, absl::StrCat(R"("chat":{)", kMessages, "}"))));
  ExpectSame("/v1/chat/completions", absl::StrCat(R"("model":"demo",)", kMessages, ",", row.http), expected);
}

INSTANTIATE_TEST_SUITE_P(OfBothPorts, Parity, testing::ValuesIn(kRows), [](const auto& row) { return row.param.name; });

// Token ids in and out; choice = prompt * n + output.
TEST(SeveralPrompts, AreAsRequestsOfTheirOwn) {
  const ServedEdge& edge = ServedEdge::Get();
  const char* fields = R"("sampling":{"n":2,"seed":"5"},"stopping":{"maxTokens":6})";
  Expected expected;
  int index = 0;
  for (const char* ids : {"1,2,3", "7", "4,4"}) {
    const Expected one =
        Take(edge.Generate(absl::StrCat(R"({"model":"demo","tokenIds":{"ids":[)", ids, "]},", fields, "}")));
    for (const auto& [output, choice] : one.choices) expected.choices[index++] = choice;
    expected.prompt_tokens += one.prompt_tokens;
    expected.completion_tokens += one.completion_tokens;
  }
  ExpectSame("/v1/completions", R"("model":"demo","prompt":[[1,2,3],[7],[4,4]],"n":2,"seed":5,"max_tokens":6)",
             expected);
}

// As clients that score texts ask: each choice begins with its prompt's tokens, of which the first has no score.
TEST(SeveralPrompts, AreScoredEach) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string fields = R"("model":"demo","echo":true,"logprobs":1,"max_tokens":1,"temperature":0)";
  const Json together =
      edge.Post("/v1/completions", absl::StrCat("{", fields, R"(,"prompt":["The dunlin is","A bird"]})")).json();
  int index = 0;
  for (const char* prompt : {"The dunlin is", "A bird"}) {
    const Json alone =
        edge.Post("/v1/completions", absl::StrCat("{", fields, R"(,"prompt":")", prompt, R"("})")).json();
    EXPECT_EQ(together["choices"][index]["logprobs"], alone["choices"][0]["logprobs"]) << prompt;
    EXPECT_TRUE(alone["choices"][0]["logprobs"]["token_logprobs"][0].is_null());
    EXPECT_THAT(together["choices"][index]["text"].get<std::string>(), StartsWith(prompt));
    ++index;
  }
}

// What the text of a chat is, over responses and messages too, streamed and not.
TEST(Parity, OfResponsesAndMessages) {
  const ServedEdge& edge = ServedEdge::Get();
  const Expected expected = Take(edge.Generate(absl::StrCat(
      R"({"model":"demo","chat":{)", kMessages, R"(},"sampling":{"seed":"9"},"stopping":{"maxTokens":12}})")));
  const std::string& text = expected.choices.at(0).text;
  const std::string response = R"("model":"demo","input":"What does the dunlin eat?","seed":9,"max_output_tokens":12)";
  const Json whole = edge.Post("/v1/responses", absl::StrCat("{", response, "}")).json();
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(whole["usage"]["input_tokens"], expected.prompt_tokens);
  EXPECT_EQ(whole["usage"]["output_tokens"], expected.completion_tokens);
  std::string streamed;
  const std::vector<Json> events =
      edge.Post("/v1/responses", absl::StrCat("{", response, R"(,"stream":true})")).events();
  for (const Json& event : events) {
    if (event["type"] == "response.output_text.delta") streamed += event["delta"];
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(events.back()["response"]["output"][0]["content"], whole["output"][0]["content"]);

  const std::string message = absl::StrCat(R"("model":"demo","seed":9,"max_tokens":12,)", kMessages);
  const Json answer = edge.Post("/v1/messages", absl::StrCat("{", message, "}")).json();
  EXPECT_EQ(answer["content"][0]["text"], text);
  EXPECT_EQ(answer["usage"]["output_tokens"], expected.completion_tokens);
  streamed.clear();
  for (const Json& event : edge.Post("/v1/messages", absl::StrCat("{", message, R"(,"stream":true})")).events()) {
    if (event["type"] == "content_block_delta") streamed += event["delta"]["text"];
  }
  EXPECT_EQ(streamed, text);
}

}  // namespace
}  // namespace dunlin::server
