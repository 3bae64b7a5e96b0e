// SPDX-License-Identifier: Apache-2.0
// Responses beside the golden ones: what streams and whole responses have in common, usage, scores of an echo, and what
// a stream leaves out.
#include "server/fronts/openai/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/output_blocks.h"
#include "server/json/json_value.h"
#include "server/serving/record/errors.h"
#include "tests/server/fronts/openai/scripted_output.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;

const char kBody[] = R"({"model":"m","messages":[{"role":"user","content":"hi"}])";

std::vector<Json> Events(const std::string& stream) {
  std::vector<Json> events;
  for (const absl::string_view line : absl::StrSplit(stream, '\n')) {
    const std::string_view text = engine::StdView(line);
    if (text.substr(0, 6) == "data: " && text != "data: [DONE]") events.push_back(Json::parse(text.substr(6)));
  }
  return events;
}

TEST(ChatStream, FirstEventOfEachChoiceHasTheRole) {
  ChunkScript script;
  script.Chunk(0).Chunk(1).Tokens(1).Text("x").Chunk(0).Tokens(1).Text("a").Finish().Chunk(1).Finish();
  const std::string body = std::string(kBody) + R"(,"stream":true,"n":2})";
  const std::vector<Json> events = Events(Respond<ChatCompletionsTranslator>(body, script));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0]["choices"][0]["delta"].dump(), R"({"role":"assistant","content":""})");
  EXPECT_EQ(events[1]["choices"][0]["delta"].dump(), R"({"role":"assistant","content":"x"})");
  EXPECT_EQ(events[2]["choices"][0]["delta"].dump(), R"({"content":"a"})");
  EXPECT_EQ(events[3]["choices"][0]["delta"].dump(), "{}");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
}

TEST(ChatStream, TokensWithoutTextMakeNoEvent) {
  ChunkScript script;
  script.Chunk().Chunk().Tokens(3).Chunk().Tokens(1).Text("a").Chunk().Finish();
  const std::string body = std::string(kBody) + R"(,"stream":true})";
  EXPECT_EQ(Events(Respond<ChatCompletionsTranslator>(body, script)).size(), 3U);
}

TEST(ChatStream, ContinuousUsageHasThePromptFromTheFirstEventOn) {
  ChunkScript script;
  script.Chunk(0).Chunk(1).Tokens(1).Text("x").Chunk(0).Tokens(1).Text("a").Finish().Chunk(1).Finish();
  const std::string body =
      std::string(kBody) + R"(,"stream":true,"n":2,"stream_options":{"continuous_usage_stats":true}})";
  std::vector<std::string> usages;
  for (const Json& event : Events(Respond<ChatCompletionsTranslator>(body, script))) {
    usages.push_back(event["usage"].dump());
  }
  const auto usage = [](int completion, int cached) {
    return absl::StrCat(R"({"prompt_tokens":5,"completion_tokens":)", completion, R"(,"total_tokens":)", 5 + completion,
                        R"(,"prompt_tokens_details":{"cached_tokens":)", cached, "}}");
  };
  EXPECT_THAT(usages, ElementsAre(usage(0, 0), usage(1, 0), usage(2, 2), usage(2, 2)));
}

TEST(ChatStream, UsageCountsEveryChoiceAndThePromptOnce) {
  ChunkScript script;
  script.Chunk(0).Tokens(2).Text("a").Finish().Chunk(1).Tokens(3).Text("b").Finish();
  const std::string body = std::string(kBody) + R"(,"stream":true,"n":2,"stream_options":{"include_usage":true,)"
                                                R"("continuous_usage_stats":true}})";
  const std::vector<Json> events = Events(Respond<ChatCompletionsTranslator>(body, script));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[2]["choices"].size(), 0U);
  EXPECT_EQ(
      events[2]["usage"].dump(),
      R"({"prompt_tokens":5,"completion_tokens":5,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2}})");
}

TEST(Usage, TellsWhatWasGuessedWhereTheFormHasAPlaceForIt) {
  ChunkScript script;
  script.Chunk(0).Tokens(5).Text("a").Finish().Drafted(7, 4);
  const Json chat = Json::parse(Respond<ChatCompletionsTranslator>(std::string(kBody) + "}", script));
  EXPECT_EQ(chat["usage"]["completion_tokens_details"].dump(),
            R"({"accepted_prediction_tokens":4,"rejected_prediction_tokens":3})");
  const std::string message = std::string(kBody) + R"(,"max_tokens":9)";
  const Json answer = Json::parse(Respond<AnthropicTranslator>(message + "}", script));
  EXPECT_EQ(answer["dunlin"]["speculation"].dump(), R"({"drafted_tokens":7,"accepted_tokens":4})");
  EXPECT_FALSE(answer["usage"].contains("speculation"));
  const Json last = Events(Respond<AnthropicTranslator>(message + R"(,"stream":true})", script)).end()[-2];
  EXPECT_EQ(last["dunlin"]["speculation"]["drafted_tokens"], 7);
  const Json response = Json::parse(Respond<ResponsesTranslator>(R"({"model":"m","input":"hi"})", script));
  EXPECT_EQ(response["dunlin"]["speculation"]["accepted_tokens"], 4);
  ChunkScript plain;
  plain.Chunk(0).Tokens(5).Text("a").Finish();
  EXPECT_FALSE(Json::parse(Respond<AnthropicTranslator>(message + "}", plain))["dunlin"].contains("speculation"));
}

TEST(Completions, AnEchoIsScoredFromTheSecondPromptToken) {
  // Oslo = "Os" and "lo" in the test's tokenizer would be two tokens; any two with bytes do.
  const auto ids = TestTokenizer().Encode("Oslo is", {.add_special_tokens = false});
  ASSERT_TRUE(ids.ok());
  ASSERT_GT(ids->size(), 1U);
  ChunkScript script;
  script.Chunk();
  for (size_t i = 1; i < ids->size(); ++i) script.PromptScored((*ids)[i]);
  script.Chunk().Text("Oslo is").Chunk().Scored(300, 400).Text("t").Chunk().Finish();
  const Json json = Json::parse(
      Respond<CompletionsTranslator>(R"({"model":"m","prompt":"Oslo is","echo":true,"logprobs":1})", script));
  const Json& logprobs = json["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), ids->size() + 1);
  std::string text;
  for (size_t i = 0; i < ids->size(); ++i) text += logprobs["tokens"][i].get<std::string>();
  EXPECT_EQ(text, "Oslo is") << "the first token is what the others leave";
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][1], -2.5);
  EXPECT_EQ(logprobs["token_logprobs"].back(), -0.5);
  EXPECT_EQ(logprobs["text_offset"].back(), 7);
}

// The tokenizer has none of these ids, as a model without one; then two ids with one text.
TEST(Completions, EachAlternativeHasAKeyOfItsOwn) {
  ChunkScript script;
  script.Chunk().Scored(100000, 100001).Scored(300, 300).Text("t").Finish();
  const std::string body = Respond<CompletionsTranslator>(R"({"model":"m","prompt":[1],"logprobs":2})", script);
  const absl::StatusOr<Json> json = ParseBody(body);
  ASSERT_TRUE(json.ok()) << json.status() << body;
  const Json& logprobs = (*json)["choices"][0]["logprobs"];
  const std::string text = TokenText(*TestTokenizer().TokenBytes(300));
  EXPECT_EQ(logprobs["tokens"], Json::array({"token_id:100000", text}));
  EXPECT_EQ(logprobs["top_logprobs"][0], (Json{{"token_id:100000", -0.5}, {"token_id:100001", -1.25}}));
  EXPECT_EQ(logprobs["top_logprobs"][1], (Json{{text, -0.5}, {"token_id:300", -1.25}}));
  EXPECT_EQ(logprobs["text_offset"][0], logprobs["text_offset"][1]) << "an id is no text";
}

TEST(Completions, PromptLogprobsBeginWithNull) {
  ChunkScript script;
  script.Chunk().PromptScored(300).Chunk().Tokens(1).Text("t").Finish();
  const Json json =
      Json::parse(Respond<CompletionsTranslator>(R"({"model":"m","prompt":"ab","prompt_logprobs":1})", script));
  const Json& scores = json["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_TRUE(scores[0].is_null());
  EXPECT_EQ(scores[1]["300"]["logprob"], -2.5);
  EXPECT_EQ(scores[1]["300"]["rank"], 1);
}

TEST(Anthropic, AToolCallThatWasCutOffIsAnEmptyInput) {
  ChunkScript script;
  script.Chunk().Tokens(1).Call(0, "c", "f", "{\"a\":").Finish(engine::FinishReason::kLength).WithToolCalls();
  const std::string body = R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]})";
  const Json json = Json::parse(Respond<AnthropicTranslator>(body, script));
  EXPECT_EQ(json["content"][0]["input"].dump(), "{}");
  EXPECT_EQ(json["stop_reason"], "max_tokens");
}

TEST(OutputBlocks, OpenForEachKindAndEachCall) {
  OutputChunk chunk;
  chunk.reasoning = "r";
  chunk.text = "t";
  chunk.tool_calls = {{0, "a", "f", "{"}, {0, "", "", "}"}, {1, "b", "g", ""}};
  OutputBlocks blocks;
  blocks.Add(chunk, nullptr);
  ASSERT_EQ(blocks.blocks().size(), 4U);
  EXPECT_EQ(blocks.blocks()[0].text + blocks.blocks()[1].text + blocks.blocks()[2].text, "rt{}");
  EXPECT_EQ(blocks.blocks()[3].name, "g");
}

// The last chunk of an output that was cut off has the rest of the arguments, and all that the model wrote as text.
TEST(OutputBlocks, ACallThatBreaksIsOneBlockBeforeItsText) {
  ChunkScript script;
  script.Chunk().Tokens(1).Call(0, "c", "f", "{\"a\":");
  script.Chunk().Tokens(1).Call(0, "", "", "\"b").Text("<call>f").Finish(engine::FinishReason::kLength);
  const std::string messages = R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]})";
  EXPECT_EQ(Json::parse(Respond<AnthropicTranslator>(messages, script))["content"].dump(),
            R"([{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"text","text":"<call>f"}])");
  const Json output = Json::parse(Respond<ResponsesTranslator>(R"({"model":"m","input":"x"})", script))["output"];
  ASSERT_EQ(output.size(), 2U) << output;
  EXPECT_EQ(output[0]["call_id"], "c");
  EXPECT_EQ(output[0]["arguments"], "{\"a\":\"b");
  EXPECT_EQ(output[0]["status"], "incomplete");
  EXPECT_EQ(output[1]["content"][0]["text"], "<call>f");
}

TEST(Errors, EveryReasonHasATypeForBothApis) {
  for (int i = 0; i <= static_cast<int>(Reason::kInternal); ++i) {
    const absl::Status status = MakeError(static_cast<Reason>(i), "what \"it\" is\n");
    const Json openai = Json::parse(OpenAiError(status));
    const Json anthropic = Json::parse(AnthropicError(status));
    EXPECT_TRUE(openai["error"]["message"].get<std::string>().starts_with("what \"it\" is\n"));
    EXPECT_EQ(openai["error"]["code"], Traits(static_cast<Reason>(i)).name);
    EXPECT_EQ(anthropic["error"]["reason"], Traits(static_cast<Reason>(i)).name);
    EXPECT_FALSE(openai["error"]["type"].get<std::string>().empty());
    EXPECT_FALSE(anthropic["error"]["type"].get<std::string>().empty());
  }
}

}  // namespace
}  // namespace dunlin::server
