// SPDX-License-Identifier: Apache-2.0
// How long outputs may be: max_tokens that is more than the context leaves, that is not given, or 0; and the usage that
// a stream counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHeader[] = "x-dunlin-max-tokens: ";

int ContextOf(const std::string& model) {
  return ServedEdge::Get().Fetch(absl::StrCat("/v1/models/", model)).json()["max_model_len"].get<int>();
}

// The prompt of `left` tokens fewer than the context has.
std::string LongPrompt(int left) {
  std::string ids;
  for (int i = ContextOf("demo") - left; i > 0; --i) absl::StrAppend(&ids, ids.empty() ? "" : ",", 100 + i % 900);
  return absl::StrCat("[", ids, "]");
}

struct Route {
  const char* name;
  const char* path;
  const char* body;  // without its end
  const char* max_tokens;
};
std::ostream& operator<<(std::ostream& out, const Route& route) {
  return out << route.name;
}

const Route kRoutes[] = {
    {"Chat", "/v1/chat/completions", R"({"model":"demo","messages":[{"role":"user","content":"hi"}])", "max_tokens"},
    {"ChatToday", "/v1/chat/completions", R"({"model":"demo","messages":[{"role":"user","content":"hi"}])",
     "max_completion_tokens"},
    {"Completions", "/v1/completions", R"({"model":"demo","prompt":"hi")", "max_tokens"},
    {"Responses", "/v1/responses", R"({"model":"demo","input":"hi")", "max_output_tokens"},
    {"Messages", "/v1/messages", R"({"model":"demo","messages":[{"role":"user","content":"hi"}])", "max_tokens"},
};

class Clamped : public testing::TestWithParam<Route> {};

// Agents ask for 32,000 tokens whatever the model's context is.
TEST_P(Clamped, MaxTokensAreLoweredToWhatTheContextLeavesAndSaid) {
  const Route& route = GetParam();
  const ServedEdge& edge = ServedEdge::Get();
  const int context = ContextOf("demo");
  for (const char* stream : {"", R"(,"stream":true)"}) {
    const HttpAnswer answer =
        edge.Post(route.path, absl::StrCat(route.body, ",\"", route.max_tokens, "\":32000,\"seed\":3", stream, "}"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    std::smatch said;
    ASSERT_TRUE(std::regex_search(answer.head, said, std::regex(absl::StrCat(kHeader, "(\\d+)\r\n")))) << answer.head;
    EXPECT_LT(std::stoi(said[1]), context);
    EXPECT_GT(std::stoi(said[1]), context - 100);
    const HttpAnswer fits =
        edge.Post(route.path, absl::StrCat(route.body, ",\"", route.max_tokens, "\":3,\"seed\":3", stream, "}"));
    EXPECT_EQ(fits.status, 200);
    EXPECT_THAT(fits.head, Not(HasSubstr(kHeader)));
  }
}

INSTANTIATE_TEST_SUITE_P(OnHttp, Clamped, testing::ValuesIn(kRoutes),
                         [](const auto& route) { return route.param.name; });

TEST(Lengths, AreClampedToExactlyWhatIsLeft) {
  const ServedEdge& edge = ServedEdge::Get();
  const HttpAnswer answer =
      edge.Post("/v1/completions",
                absl::StrCat(R"({"model":"demo","ignore_eos":true,"max_tokens":32000,"prompt":)", LongPrompt(7), "}"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.head, HasSubstr(absl::StrCat(kHeader, "7\r\n")));
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 7);
  EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "length");
}

TEST(Lengths, OfSeveralPromptsAreSaidByTheLowest) {
  const HttpAnswer answer = ServedEdge::Get().Post(
      "/v1/completions", absl::StrCat(R"({"model":"demo","ignore_eos":true,"max_tokens":32000,"prompt":[)",
                                      LongPrompt(9), ",", LongPrompt(5), "]}"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.head, HasSubstr(absl::StrCat(kHeader, "5\r\n")));
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 14);
}

TEST(Lengths, OfGrpcAreRefusedUnlessAsked) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string request = absl::StrCat(R"({"model":"demo","tokenIds":{"ids":)", LongPrompt(7),
                                           R"(},"stopping":{"ignoreEos":true,"maxTokens":8)");
  const Reply refused = edge.Generate(request + "}}");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("stopping.max_tokens is 8 after a prompt of "));
  const Reply clamped = edge.Generate(request + R"(,"clampMaxTokens":true}})");
  ASSERT_TRUE(clamped.status.ok()) << clamped.status.error_message();
  EXPECT_EQ(clamped.outputs.at(0).token_ids.size(), 7U);
  const Reply huge = edge.Generate(
      R"({"model":"demo","tokenIds":{"ids":[5]},"stopping":{"maxTokens":2147483647,"stop":["e"],"clampMaxTokens":true}})");
  EXPECT_TRUE(huge.status.ok()) << huge.status.error_message();
}

TEST(Lengths, WithoutMaxTokensAreWhatTheContextLeaves) {
  const ServedEdge& edge = ServedEdge::Get();
  const int context = ContextOf("tiny");
  ASSERT_GT(context, 8);
  const HttpAnswer answer = edge.Post("/v1/completions", R"({"model":"tiny","prompt":[1,2,3],"ignore_eos":true})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], context - 3);
  EXPECT_THAT(answer.head, Not(HasSubstr(kHeader))) << "the client asked for nothing else";
  const Reply reply = edge.Generate(R"({"model":"tiny","tokenIds":{"ids":[1,2,3]},"stopping":{"ignoreEos":true}})");
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).token_ids.size(), static_cast<size_t>(context - 3));
}

constexpr char kUsage[] = R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})";

TEST(Usage, OfAStreamHasThePromptFromTheFirstEventOn) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string chat = R"({"model":"demo","messages":[{"role":"user","content":"hi"}],"n":2,"max_tokens":5)";
  const int prompt = edge.Post("/v1/chat/completions", chat + "}").json()["usage"]["prompt_tokens"];
  const std::vector<Json> events = edge.Post("/v1/chat/completions", chat + "," + kUsage + "}").events();
  ASSERT_GT(events.size(), 2U);
  int completion = 0;
  for (const Json& event : events) {
    EXPECT_EQ(event["usage"]["prompt_tokens"], prompt) << event;
    EXPECT_GE(event["usage"]["completion_tokens"], completion) << event;
    completion = event["usage"]["completion_tokens"];
    EXPECT_EQ(event["usage"]["total_tokens"], prompt + completion);
  }
  EXPECT_GT(completion, 0);
}

// A prompt counts from its own first event on.
TEST(Usage, OfSeveralPromptsCountsThoseThatHaveBegun) {
  const std::vector<Json> events =
      ServedEdge::Get()
          .Post("/v1/completions",
                absl::StrCat(R"({"model":"demo","prompt":[[5,6,7],[8,9]],"n":2,"max_tokens":4,)", kUsage, "}"))
          .events();
  ASSERT_GT(events.size(), 2U);
  int prompt = 0;
  for (const Json& event : events) {
    EXPECT_GE(event["usage"]["prompt_tokens"], prompt) << event;
    prompt = event["usage"]["prompt_tokens"];
    EXPECT_TRUE(prompt == 2 || prompt == 3 || prompt == 5) << event;
  }
  EXPECT_EQ(prompt, 5);
}

TEST(Usage, OfMessagesBeginsWithThePrompt) {
  const std::string body = R"({"model":"demo","max_tokens":4,"messages":[{"role":"user","content":"hi there"}])";
  const Json whole = ServedEdge::Get().Post("/v1/messages", body + "}").json()["usage"];
  const int prompt = whole["input_tokens"].get<int>() + whole["cache_read_input_tokens"].get<int>();
  const std::vector<Json> events = ServedEdge::Get().Post("/v1/messages", body + R"(,"stream":true})").events();
  ASSERT_EQ(events.front()["type"], "message_start");
  const Json usage = events.front()["message"]["usage"];
  EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(), prompt);
}

// Clients that score texts ask for no token, or for one that they drop.
TEST(Scoring, NeedsNoGeneratedToken) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string body =
      R"({"model":"demo","echo":true,"logprobs":1,"temperature":0,"prompt":["The dunlin is a bird.","A bird"],)";
  const Json none = edge.Post("/v1/completions", body + R"("max_tokens":0})").json();
  const Json one = edge.Post("/v1/completions", body + R"("max_tokens":1})").json();
  ASSERT_EQ(none["choices"].size(), 2U) << none;
  EXPECT_EQ(none["usage"]["completion_tokens"], 0);
  EXPECT_EQ(none["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]);
  EXPECT_EQ(none["choices"][0]["text"], "The dunlin is a bird.");
  EXPECT_EQ(none["choices"][1]["text"], "A bird");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(none["choices"][i]["finish_reason"], "length");
    Json scores = one["choices"][i]["logprobs"];
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      scores[list].erase(scores[list].size() - 1);
    }
    EXPECT_EQ(none["choices"][i]["logprobs"], scores) << "those of the prompt";
  }
}

TEST(Scoring, OverGrpcIsTheSame) {
  const Reply reply = ServedEdge::Get().Generate(
      R"({"model":"demo","text":"The dunlin is a bird.","output":{"promptLogprobs":0,"echo":true},)"
      R"("sampling":{"n":2},"stopping":{"maxTokens":0}})");
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  for (const int index : {0, 1}) {
    EXPECT_TRUE(reply.outputs.at(index).token_ids.empty());
    EXPECT_EQ(reply.outputs.at(index).text, "The dunlin is a bird.");
  }
  const v1::Finish& finish = reply.outputs.at(0).finish;
  EXPECT_EQ(std::ssize(reply.prompt_logprobs), finish.usage().prompt_tokens() - 1);
  EXPECT_EQ(finish.usage().completion_tokens(), 0);
  EXPECT_EQ(finish.reason(), v1::FINISH_REASON_LENGTH);
}

TEST(Scoring, IsNoChat) {
  const ServedEdge& edge = ServedEdge::Get();
  for (const char* path : {"/v1/chat/completions", "/v1/responses"}) {
    const bool chat = std::string(path) == "/v1/chat/completions";
    const HttpAnswer answer =
        edge.Post(path, chat ? R"({"model":"demo","messages":[{"role":"user","content":"hi"}],"max_tokens":0})"
                             : R"({"model":"demo","input":"hi","max_output_tokens":0})");
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.json()["error"]["param"], chat ? "max_tokens" : "max_output_tokens");
  }
}

}  // namespace
}  // namespace dunlin::server
