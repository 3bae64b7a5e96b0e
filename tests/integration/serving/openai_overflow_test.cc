// SPDX-License-Identifier: Apache-2.0
// A prompt over the context, on every route and over gRPC: the words by which clients recognise it, and the counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/loop/validate.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// LiteLLM raises ContextWindowExceededError, on which its fallbacks act, where the lower-cased error has one of these.
// Source: is_error_str_context_window_exceeded in litellm_core_utils/exception_mapping_utils.py of litellm 1.110.2.
const char* const kLiteLlmSubstrings[] = {
    "exceed context limit",
    "this model's maximum context length is",
    "model's maximum context limit",
    "is longer than the model's context length",
    "exceeds the available context size",
    "prompt is too long",
};

// opencode compacts its session where the message matches one of these, whatever the case, and none of the last two; or
// where error.code is "context_length_exceeded".
// Source: the list of context overflow patterns in opencode 1.18.34.
const char* const kOpencodePatterns[] = {
    "prompt is too long",
    "exceeds the context window",
    R"(maximum context length is \d+ tokens)",
    "context[_ ]length[_ ]exceeded",
    R"(exceeds (?:the )?maximum allowed input length of [\d,]+ tokens?)",
};
const char* const kOpencodeOtherPatterns[] = {"rate limit", "too many requests"};

// LangChain raises ContextOverflowError where the text of openai's exception has one of these. With openai 3.57 that
// text is the message, without the code. Source: _handle_openai_bad_request in langchain_openai/chat_models/base.py of
// langchain-openai 1.7.4.
const char* const kLangChainSubstrings[] = {"context_length_exceeded", "prompt is too long"};

bool LiteLlmKnows(const std::string& message) {
  const std::string lower = absl::AsciiStrToLower(message);
  return std::any_of(std::begin(kLiteLlmSubstrings), std::end(kLiteLlmSubstrings),
                     [&lower](const char* known) { return lower.find(known) != lower.npos; });
}

bool Matches(const std::string& message, const char* pattern) {
  return std::regex_search(message, std::regex(pattern, std::regex::icase));
}

bool OpencodeKnows(const std::string& message) {
  const auto matches = [&message](const char* pattern) { return Matches(message, pattern); };
  return std::any_of(std::begin(kOpencodePatterns), std::end(kOpencodePatterns), matches) &&
         std::none_of(std::begin(kOpencodeOtherPatterns), std::end(kOpencodeOtherPatterns), matches);
}

bool LangChainKnows(const std::string& message) {
  return std::any_of(std::begin(kLangChainSubstrings), std::end(kLangChainSubstrings),
                     [&message](const char* known) { return message.find(known) != message.npos; });
}

std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "dunlins wade ";
  return text;
}

struct OverflowRoute {
  const char* name;
  const char* path;
  const char* before;  // of the text, in the body
  const char* after;
  int context;
};
std::ostream& operator<<(std::ostream& out, const OverflowRoute& route) {
  return out << route.name;
}

int ContextOfDemo() {
  return ServedEdge::Get().Fetch("/v1/models/demo").json()["max_model_len"].get<int>();
}

const OverflowRoute kOverflowRoutes[] = {
    {"Completions", "/v1/completions", R"({"model":"demo","prompt":")", R"("})", 0},
    {"Chat", "/v1/chat/completions", R"({"model":"demo","messages":[{"role":"user","content":")", R"("}]})", 0},
    {"ChatStream", "/v1/chat/completions", R"({"model":"demo","stream":true,"messages":[{"role":"user","content":")",
     R"("}]})", 0},
    {"Responses", "/v1/responses", R"({"model":"demo","input":")", R"("})", 0},
    {"Embeddings", "/v1/embeddings", R"({"model":"encoder","input":["a",")", R"("]})", 130},
};

class Overflow : public testing::TestWithParam<OverflowRoute> {};

TEST_P(Overflow, IsSaidInTheWordsThatClientsLookFor) {
  const OverflowRoute& route = GetParam();
  const int context = route.context == 0 ? ContextOfDemo() : route.context;
  const std::string says = absl::StrCat("This model's maximum context length is ", context, " tokens. However, ");
  struct Prompt {
    std::string text;
    bool exact;
  };
  for (const Prompt& prompt : {Prompt{Words(context / 3), true}, Prompt{Words(100000), false}}) {
    const HttpAnswer answer = ServedEdge::Get().Post(route.path, absl::StrCat(route.before, prompt.text, route.after));
    EXPECT_EQ(answer.status, 400);
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["type"], "invalid_request_error");
    const std::string message = error["message"];
    EXPECT_THAT(message, StartsWith(says));
    std::smatch counts;
    ASSERT_TRUE(std::regex_search(message, counts, std::regex("your request has (at least )?(\\d+) prompt tokens")))
        << message;
    EXPECT_GT(std::stoi(counts[2]), context - 1);
    if (!prompt.exact) {
      EXPECT_TRUE(counts[1].matched) << message;
    }
    EXPECT_TRUE(LiteLlmKnows(message)) << message;
    EXPECT_TRUE(OpencodeKnows(message)) << message;
    EXPECT_TRUE(LangChainKnows(message)) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(OfOpenAi, Overflow, testing::ValuesIn(kOverflowRoutes),
                         [](const auto& route) { return route.param.name; });

TEST(Overflow, OfMessagesHasAnthropicsWords) {
  const int context = ContextOfDemo();
  for (const int words : {context / 3, 100000}) {
    const HttpAnswer answer = ServedEdge::Get().Post(
        "/v1/messages", absl::StrCat(R"({"model":"demo","max_tokens":100,"messages":[{"role":"user","content":")",
                                     Words(words), R"("}]})"));
    EXPECT_EQ(answer.status, 400);
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    const std::string message = error["message"];
    std::smatch counts;
    ASSERT_TRUE(std::regex_search(message, counts, std::regex(R"(^prompt is too long: (\d+) tokens > (\d+) maximum)")))
        << message;
    EXPECT_GT(std::stoi(counts[1]), std::stoi(counts[2]));
    EXPECT_EQ(std::stoi(counts[2]), context - 1) << "a prompt leaves room for one token";
    EXPECT_TRUE(LiteLlmKnows(message) && OpencodeKnows(message) && LangChainKnows(message)) << message;
  }
}

// Up to twice what the context takes, the count is the tokenizer's.
TEST(Overflow, CountsWhatItReads) {
  const ServedEdge& edge = ServedEdge::Get();
  const int context = ContextOfDemo();
  for (const int words : {context / 3, context}) {
    const std::string text = Words(words);
    const int tokens =
        edge.Post("/tokenize", absl::StrCat(R"({"model":"demo","prompt":")", text, R"("})")).json()["count"];
    ASSERT_GE(tokens, context) << "the text is too short for this test";
    const std::string count = absl::StrCat(tokens < 2 * context - 1 ? "" : "at least ",
                                           std::min(tokens, 2 * (context - 1) + 1), " prompt tokens");
    const HttpAnswer answer =
        edge.Post("/v1/completions", absl::StrCat(R"({"model":"demo","prompt":")", text, R"("})"));
    EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(), HasSubstr(count));
  }
}

TEST(Overflow, OfGrpcHasTheSameNumbers) {
  const int context = ContextOfDemo();
  const std::string ids(2 * static_cast<size_t>(context) + 20, '1');
  std::string list;
  for (const char digit : ids) list += absl::StrCat(list.empty() ? "" : ",", std::string(1, digit));
  const Reply reply = ServedEdge::Get().Generate(absl::StrCat(R"({"model":"demo","tokenIds":{"ids":[)", list, "]}}"));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(reply.reason(), "INVALID_FIELD");
  EXPECT_EQ(reply.status.error_message(),
            absl::StrCat("token_ids.ids has ", ids.size(), " tokens; limit is ", context - 1,
                         ", one less than the context (models[].max_context_tokens)"));
  const HttpAnswer answer =
      ServedEdge::Get().Post("/v1/completions", absl::StrCat(R"({"model":"demo","prompt":[)", list, "]}"));
  EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(),
              HasSubstr(absl::StrCat("your request has ", ids.size(), " prompt tokens")));
}

}  // namespace
}  // namespace dunlin::server
