// SPDX-License-Identifier: Apache-2.0
// Calls through the serving core and an engine: the same requests through the OpenAI front are the oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/serving/record/errors.h"
#include "tests/server/fronts/ollama/core_fixture.h"

namespace dunlin::server::ollama {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::vector<Json> LinesOf(const std::string& stream) {
  EXPECT_THAT(stream, testing::EndsWith("\n"));
  std::vector<Json> lines;
  for (const absl::string_view line : absl::StrSplit(stream, '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(engine::StdView(line)));
  }
  return lines;
}

// The lines of a stream of chat as one document.
Json Joined(const std::string& stream) {
  std::vector<Json> lines = LinesOf(stream);
  Json whole = lines.back();
  std::string content;
  std::string thinking;
  Json calls = Json::array();
  Json logprobs = Json::array();
  for (const Json& line : lines) {
    EXPECT_EQ(line["done"], &line == &lines.back());
    content += line["message"]["content"].get<std::string>();
    thinking += line["message"].value("thinking", "");
    for (const Json& call : line["message"].value("tool_calls", Json::array())) calls.push_back(call);
    for (const Json& token : line.value("logprobs", Json::array())) logprobs.push_back(token);
  }
  whole["message"]["content"] = content;
  if (!thinking.empty()) whole["message"]["thinking"] = thinking;
  if (!calls.empty()) whole["message"]["tool_calls"] = calls;
  if (!logprobs.empty()) whole["logprobs"] = logprobs;
  return whole;
}

class Serving : public CoreFixture {
 protected:
  // A model without a chat template, "plain".
  void AddPlain() {
    std::unique_ptr<ServedModel> plain = models_.NewTiny();
    plain->name = "plain";
    plain->chat_template.reset();
    EXPECT_TRUE(models_.repository().Add(std::move(plain)).ok());
  }
};

const char kHi[] = R"({"model":"tiny","messages":[{"role":"user","content":"hi there"}])";

TEST_F(Serving, AChatAnswersAsChatCompletions) {
  const Json oracle = OpenAi<ChatCompletionsTranslator>(std::string(kHi) + R"(,"seed":7,"max_tokens":6})");
  const std::string body = std::string(kHi) + R"(,"options":{"seed":7,"num_predict":6})";
  const Json whole = Json::parse(Chat(body + R"(,"stream":false})"));
  const Json streamed = Joined(Chat(body + "}"));
  for (const Json& answer : {whole, streamed}) {
    EXPECT_EQ(answer["message"]["role"], "assistant");
    EXPECT_EQ(answer["message"]["content"], oracle["choices"][0]["message"]["content"]);
    EXPECT_EQ(answer["prompt_eval_count"], oracle["usage"]["prompt_tokens"]);
    EXPECT_EQ(answer["eval_count"], oracle["usage"]["completion_tokens"]);
    EXPECT_EQ(answer["done_reason"], oracle["choices"][0]["finish_reason"]);
    EXPECT_EQ(answer["dunlin"]["execution"], oracle["dunlin"]["execution"]);
    EXPECT_EQ(answer["dunlin"]["system_fingerprint"], oracle["system_fingerprint"]);
    EXPECT_EQ(answer["model"], "tiny");
    EXPECT_EQ(answer["created_at"], "2023-11-14T22:13:20+00:00");
  }
  EXPECT_EQ(whole["done_reason"], "length");
}

TEST_F(Serving, DurationsAreThoseOfTheTimings) {
  const Json answer = Json::parse(Chat(std::string(kHi) + R"(,"stream":false,"options":{"num_predict":6}})"));
  const Json& timings = answer["dunlin"]["timings"];
  const auto ms = [&answer](const char* name) { return answer[name].get<double>() / 1e6; };
  EXPECT_NEAR(ms("total_duration"), timings["total_ms"].get<double>(), 1e-5);
  EXPECT_NEAR(ms("load_duration"), timings["queue_ms"].get<double>(), 1e-5);
  EXPECT_NEAR(ms("load_duration") + ms("prompt_eval_duration") + ms("eval_duration"), ms("total_duration"), 1e-5);
  EXPECT_GT(answer["eval_duration"].get<int64_t>(), 0);
}

TEST_F(Serving, WhatIsChosenRunsAndIsTold) {
  const Json answer = Json::parse(
      Chat(std::string(kHi) +
           R"(,"stream":false,"options":{"num_predict":2,"attention_backend":"math","precision":"fp32"}})"));
  EXPECT_EQ(answer["dunlin"]["execution"]["attention_backend"], "math");
  EXPECT_EQ(answer["dunlin"]["execution"]["precision"], "fp32");
}

TEST_F(Serving, APromptIsTheChatOfOneUser) {
  const Json oracle = OpenAi<ChatCompletionsTranslator>(std::string(kHi) + R"(,"seed":7,"max_tokens":6})");
  const Json answer = Json::parse(
      Generate(R"({"model":"tiny","prompt":"hi there","stream":false,"options":{"seed":7,"num_predict":6}})"));
  EXPECT_EQ(answer["response"], oracle["choices"][0]["message"]["content"]);
  EXPECT_EQ(answer["prompt_eval_count"], oracle["usage"]["prompt_tokens"]);
  std::string streamed;
  for (const Json& line :
       LinesOf(Generate(R"({"model":"tiny","prompt":"hi there","options":{"seed":7,"num_predict":6}})"))) {
    streamed += line["response"].get<std::string>();
  }
  EXPECT_EQ(streamed, answer["response"]);
}

TEST_F(Serving, ARawPromptIsACompletion) {
  const Json oracle = OpenAi<CompletionsTranslator>(
      R"({"model":"tiny","prompt":"a<|endoftext|>b","parse_special_tokens":true,"seed":7,"max_tokens":6})");
  const Json answer = Json::parse(Generate(
      R"({"model":"tiny","prompt":"a<|endoftext|>b","raw":true,"stream":false,"options":{"seed":7,"num_predict":6}})"));
  EXPECT_EQ(answer["response"], oracle["choices"][0]["text"]);
  EXPECT_EQ(answer["prompt_eval_count"], oracle["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["eval_count"], oracle["usage"]["completion_tokens"]);
}

TEST_F(Serving, AModelWithoutAChatTemplateContinuesThePrompt) {
  AddPlain();
  const Json oracle = OpenAi<CompletionsTranslator>(R"({"model":"plain","prompt":"hi there","seed":7,"max_tokens":6})");
  const Json answer = Json::parse(
      Generate(R"({"model":"plain","prompt":"hi there","stream":false,"options":{"seed":7,"num_predict":6}})"));
  EXPECT_EQ(answer["response"], oracle["choices"][0]["text"]);
  EXPECT_EQ(answer["prompt_eval_count"], oracle["usage"]["prompt_tokens"]);
  EXPECT_THAT(Generate(R"({"model":"plain","prompt":"hi","system":"s"})"), HasSubstr(R"("reason":"CHAT_UNSUPPORTED")"));
  EXPECT_THAT(Chat(R"({"model":"plain","messages":[{"role":"user","content":"a"}]})"),
              HasSubstr(R"("reason":"CHAT_UNSUPPORTED")"));
}

// The scripted model repeats its prompt.
TEST_F(Serving, ReasoningAndCallsComeApartAsInChatCompletions) {
  models_.AddChatting("hermes", "{# <tool_call> </think> #}{{ messages[-1].content }}{{ '<|endoftext|>' }}");
  const Json body = {
      {"model", "hermes"},
      {"messages",
       {{{"role", "user"},
         {"content",
          "<think>\nHm.\n</think>\n\nYes. <tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1}}</tool_call>\n"
          "<tool_call>{\"name\": \"ping\", \"arguments\": {\n\"n\":\r\n2\n}}</tool_call>"}}}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "ping"}, {"parameters", {{"type", "object"}}}}}}}}};
  const Json message = OpenAi<ChatCompletionsTranslator>(body.dump())["choices"][0]["message"];
  ASSERT_THAT(message["tool_calls"], SizeIs(2));
  Json whole = body;
  whole["stream"] = false;
  for (const Json& answer : {Json::parse(Chat(whole.dump())), Joined(Chat(body.dump()))}) {
    EXPECT_EQ(answer["message"]["thinking"], message["reasoning_content"]);
    EXPECT_EQ(answer["message"]["content"], message["content"]);
    EXPECT_EQ(answer["done_reason"], "stop");
    ASSERT_THAT(answer["message"]["tool_calls"], SizeIs(2));
    for (size_t i = 0; i < 2; ++i) {
      const Json& call = answer["message"]["tool_calls"][i]["function"];
      const Json& expected = message["tool_calls"][i]["function"];
      EXPECT_EQ(call["index"], i);
      EXPECT_EQ(call["name"], expected["name"]);
      EXPECT_EQ(call["arguments"], Json::parse(expected["arguments"].get<std::string>()));
      EXPECT_THAT(answer["message"]["tool_calls"][i]["id"].get<std::string>(), StartsWith("call_"));
    }
  }
}

TEST_F(Serving, ACallThatWasCutOffHasAnObject) {
  models_.AddChatting("hermes", "{# <tool_call> #}{{ messages[-1].content }}");
  const std::string body = R"({"model":"hermes","tools":[{"type":"function","function":{"name":"ping"}}],"messages":[
      {"role":"user","content":"<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}],
      "options":{"num_predict":40}})";
  for (const Json& line : LinesOf(Chat(body))) {
    for (const Json& call : line["message"].value("tool_calls", Json::array())) {
      EXPECT_EQ(call["function"]["arguments"], Json::object());
    }
  }
}

TEST_F(Serving, LogprobsAreThoseOfChatCompletions) {
  const std::string scores = R"(,"logprobs":true,"top_logprobs":2)";
  const Json oracle = OpenAi<ChatCompletionsTranslator>(kHi + scores + R"(,"max_tokens":4})");
  const std::string body = kHi + scores + R"(,"options":{"num_predict":4})";
  const Json& expected = oracle["choices"][0]["logprobs"]["content"];
  ASSERT_THAT(expected, SizeIs(4));
  EXPECT_EQ(Json::parse(Chat(body + R"(,"stream":false})"))["logprobs"], expected);
  EXPECT_EQ(Joined(Chat(body + "}"))["logprobs"], expected);
  EXPECT_THAT(Chat(std::string(kHi) + R"(,"logprobs":true,"top_logprobs":21})"),
              HasSubstr(R"("field":"top_logprobs")"));
}

TEST_F(Serving, ARequestWithoutAPromptLoadsTheModelAlone) {
  EXPECT_EQ(Generate(R"({"model":"tiny:latest","keep_alive":-1})"),
            R"({"model":"tiny:latest","created_at":"2023-11-14T22:13:20+00:00","response":"","done":true,)"
            R"("done_reason":"load"})");
  EXPECT_EQ(Chat(R"({"model":"tiny","messages":[]})"),
            R"({"model":"tiny","created_at":"2023-11-14T22:13:20+00:00","message":{"role":"assistant","content":""},)"
            R"("done":true,"done_reason":"load"})");
  EXPECT_THAT(Generate(R"({"model":"nope"})"), HasSubstr("model 'nope' not found"));
  EXPECT_THAT(Generate(R"({"model":"encoder"})"), HasSubstr(R"("reason":"WRONG_MODEL_KIND")"));
  const std::vector<RequestRecord> records = observer_.WaitFor(4);
  EXPECT_TRUE(records[0].status.ok());
  EXPECT_EQ(records[0].model, "tiny");
  EXPECT_EQ(records[0].completion_tokens, 0);
  EXPECT_EQ(records[0].finish_reason, "load");
  EXPECT_EQ(models_.control().tokens.load(), 0);
  EXPECT_THAT(Generate(R"({"model":"tiny","precision":"int4"})"), HasSubstr("PROFILE_UNSUPPORTED"));
}

// Here none is loaded by requests: each stays.
TEST_F(Serving, ARequestToUnloadSaysWhetherTheModelLeaves) {
  for (const char* zero : {"0", "0.0", R"("0")", R"("0s")", R"("-0m0.0s")"}) {
    EXPECT_THAT(Generate(std::string(R"({"model":"tiny:latest","keep_alive":)") + zero + "}"),
                HasSubstr(R"("response":"","done":true,"done_reason":"load"})"));
  }
  EXPECT_THAT(Generate(R"({"model":"encoder","keep_alive":0})"), HasSubstr(R"("done_reason":"load"})"));
  EXPECT_THAT(Chat(R"({"model":"nope","keep_alive":0})"), HasSubstr("model 'nope' not found"));
  ClientRequest request;
  for (const char* kept : {"1", "-1", R"("5m")", R"("")", R"("10s")", "null"}) {
    GenerationTranslator translator(GenerationApi::kChat, Facts());
    EXPECT_TRUE(translator.Read(std::string(R"({"model":"tiny","keep_alive":)") + kept + "}", &request).ok()) << kept;
    EXPECT_FALSE(std::exchange(request, {}).frees_model) << kept;
  }
  GenerationTranslator translator(GenerationApi::kChat, Facts());
  ASSERT_TRUE(translator.Read(std::string(kHi) + R"(,"keep_alive":0})", &request).ok());
  EXPECT_TRUE(request.frees_model && !request.loads_only) << "after its output";
}

TEST_F(Serving, AnErrorWithinAStreamIsItsLastLine) {
  GenerationTranslator translator(GenerationApi::kChat, Facts());
  ClientRequest request;
  ASSERT_TRUE(translator.Read(std::string(kHi) + "}", &request).ok());
  OutputChunk chunk;
  chunk.text = "a";
  std::string out;
  translator.OnChunk(chunk, &out);
  translator.OnEnd({.status = MakeError(Reason::kDraining, "draining"), .request_id = ""}, &out);
  const std::vector<Json> lines = LinesOf(out);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0]["message"]["content"], "a");
  EXPECT_EQ(lines[1].dump(), R"({"error":"draining","reason":"DRAINING"})");
}

TEST_F(Serving, AnIdleStreamRepeatsALineThatAddsNothing) {
  GenerationTranslator translator(GenerationApi::kChat, Facts());
  ClientRequest request;
  ASSERT_TRUE(translator.Read(std::string(kHi) + "}", &request).ok());
  const StreamForm form = translator.stream_form();
  EXPECT_STREQ(form.content_type, "application/x-ndjson");
  EXPECT_EQ(form.idle_text, R"({"model":"tiny","created_at":"2023-11-14T22:13:20+00:00",)"
                            R"("message":{"role":"assistant","content":""},"done":false})"
                            "\n");
}

}  // namespace
}  // namespace dunlin::server::ollama
