// SPDX-License-Identifier: Apache-2.0
// Routes over the serving core and an engine: responses of real generations, and the core's errors in each route's
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/responses.h"
#include "server/json/json_value.h"
#include "tests/server/fronts/openai/scripted_output.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Serving : public testing::Test {
 protected:
  Serving() : models_(engine::EngineOptions()), core_({}, models_.repository(), nullptr, {}) { core_.Open(); }
  ~Serving() override {
    core_.StartDraining(AdmissionRefusal::kDraining);
    EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
    models_.repository().StopEngines();
  }

  // The body of the response: a document, a stream or an error.
  template <class Translator>
  std::string Post(const std::string& body) {
    Translator translator(TestFacts());
    ClientRequest request;
    if (absl::Status s = translator.Read(body, &request); !s.ok()) return translator.ErrorBody(s);
    const auto call = std::make_shared<FakeGenerateCall>(request);
    FakeGenerateCall::Start(&core_, call);
    const FakeResponse response = call->WaitUntilFinished();
    if (!response.status.ok()) return translator.ErrorBody(response.status);
    std::string out;
    for (const OutputChunk& chunk : response.chunks) translator.OnChunk(chunk, &out);
    translator.OnEnd({.status = response.status, .request_id = response.request_id}, &out);
    return out;
  }

  TestModels models_;
  ServingCore core_;
};

const char kHi[] = R"("model":"tiny","messages":[{"role":"user","content":"hi"}])";

TEST_F(Serving, EveryRouteAnswersWithTheSameText) {
  const std::string limits = R"(,"seed":7)";
  const Json chat = Json::parse(
      Post<ChatCompletionsTranslator>(std::string("{") + kHi + limits + R"(,"max_tokens":6,"ignore_eos":true})"));
  const std::string text = chat["choices"][0]["message"]["content"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(chat["usage"]["completion_tokens"], 6);
  EXPECT_GT(chat["usage"]["prompt_tokens"], 0);
  EXPECT_THAT(chat["system_fingerprint"].get<std::string>(), StartsWith("dunlin-9.9.9-avx2-cpu-"));
  EXPECT_THAT(chat["id"].get<std::string>(), StartsWith("chatcmpl-"));
  const Json response = Json::parse(Post<ResponsesTranslator>(
      R"({"model":"tiny","input":"hi","max_output_tokens":6,"ignore_eos":true)" + limits + "}"));
  EXPECT_EQ(response["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(response["status"], "incomplete");
  const Json message =
      Json::parse(Post<AnthropicTranslator>(std::string("{") + kHi + limits + R"(,"max_tokens":6,"ignore_eos":true})"));
  EXPECT_EQ(message["content"][0]["text"], text);
  EXPECT_EQ(message["stop_reason"], "max_tokens");
}

TEST_F(Serving, AStreamHasWhatTheDocumentHas) {
  const std::string body = R"("model":"tiny","prompt":"hi","n":2,"seed":7,"max_tokens":6,"logprobs":2)";
  const Json whole = Json::parse(Post<CompletionsTranslator>("{" + body + "}"));
  const std::string stream = Post<CompletionsTranslator>("{" + body + R"(,"stream":true})");
  EXPECT_THAT(stream, testing::EndsWith("data: [DONE]\n\n"));
  std::vector<std::string> texts(2);
  std::vector<Json> scores(2, Json::array());
  for (const absl::string_view line : absl::StrSplit(stream, '\n')) {
    const std::string_view data = engine::StdView(line);
    if (data.substr(0, 7) != "data: {") continue;
    const Json choice = Json::parse(data.substr(6))["choices"][0];
    const size_t index = choice["index"];
    texts[index] += choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const Json& score : choice["logprobs"]["token_logprobs"]) scores[index].push_back(score);
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(whole["choices"][i]["text"], texts[i]);
    EXPECT_EQ(whole["choices"][i]["logprobs"]["token_logprobs"], scores[i]);
  }
}

TEST_F(Serving, AnEchoIsScoredFromItsSecondToken) {
  const Json json = Json::parse(Post<CompletionsTranslator>(
      R"({"model":"tiny","prompt":"hello there","echo":true,"logprobs":1,"max_tokens":2,"seed":7,"ignore_eos":true})"));
  const Json& logprobs = json["choices"][0]["logprobs"];
  const size_t prompt_tokens = json["usage"]["prompt_tokens"];
  ASSERT_EQ(logprobs["tokens"].size(), prompt_tokens + 2);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  std::string echoed;
  for (size_t i = 0; i < prompt_tokens; ++i) echoed += logprobs["tokens"][i].get<std::string>();
  EXPECT_EQ(echoed, "hello there");
  EXPECT_THAT(json["choices"][0]["text"].get<std::string>(), StartsWith("hello there"));
}

TEST_F(Serving, ErrorsOfTheCoreNameTheRoutesFields) {
  const std::string chat = std::string("{") + kHi;
  const std::pair<std::string, const char*> errors[] = {
      {Post<ChatCompletionsTranslator>(chat + R"(,"top_p":2})"), R"("message":"top_p is 2; limit is (0, 1]")"},
      {Post<ChatCompletionsTranslator>(chat + R"(,"max_tokens":0})"), R"("param":"max_tokens")"},
      {Post<ChatCompletionsTranslator>(chat + R"(,"max_completion_tokens":0})"), R"("param":"max_completion_tokens")"},
      {Post<ChatCompletionsTranslator>(chat + R"(,"logprobs":true,"top_logprobs":21})"), R"("param":"top_logprobs")"},
      {Post<ChatCompletionsTranslator>(R"({"model":"tiny","messages":[]})"), R"("param":"messages")"},
      {Post<ChatCompletionsTranslator>(R"({"model":"none","messages":[]})"), R"("code":"UNKNOWN_MODEL")"},
      {Post<ChatCompletionsTranslator>(R"({"model":"none","messages":[]})"),
       R"(model \"none\" is not served; GET /v1/models lists those that are)"},
      {Post<CompletionsTranslator>(R"({"model":"tiny","prompt":[1,99999]})"), R"("param":"prompt[1]")"},
      {Post<CompletionsTranslator>(R"({"model":"tiny","prompt":"a","stop":[""]})"), R"("param":"stop[0]")"},
      {Post<ResponsesTranslator>(R"({"model":"tiny","input":"a","max_output_tokens":0})"),
       R"("param":"max_output_tokens")"},
      {Post<AnthropicTranslator>(chat + R"(,"max_tokens":1,"stop_sequences":[""]})"), R"("field":"stop_sequences[0]")"},
  };
  for (const auto& [body, expected] : errors) EXPECT_THAT(body, HasSubstr(expected));
}

}  // namespace
}  // namespace dunlin::server
