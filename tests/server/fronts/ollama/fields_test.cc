// SPDX-License-Identifier: Apache-2.0
// What the bodies of /api/chat, /api/generate, /api/embed and /api/embeddings become, what of them has no effect, and
// what is refused in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "server/fronts/ollama/error_body.h"
#include "server/fronts/ollama/ollama_routes.h"
#include "tests/server/fronts/ollama/core_fixture.h"

namespace dunlin::server::ollama {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class Fields : public CoreFixture {
 protected:
  ClientRequest Read(GenerationApi api, const std::string& body) {
    GenerationTranslator translator(api, Facts());
    ClientRequest request;
    const absl::Status status = translator.Read(body, &request);
    EXPECT_TRUE(status.ok()) << status;
    return request;
  }
  std::string Error(GenerationApi api, const std::string& members) {
    GenerationTranslator translator(api, Facts());
    ClientRequest request;
    const absl::Status status = translator.Read(R"({"model":"tiny",)" + members + "}", &request);
    return status.ok() ? "read" : std::string(status.message());
  }
  static std::string MessagesOf(const ClientRequest& request) {
    return text::MessagesJson(std::get<text::ChatInput>(request.prompt).messages);
  }
};

TEST_F(Fields, OptionsAreSamplingStoppingAndExecution) {
  const ClientRequest request = Read(GenerationApi::kChat, R"({"model":"tiny:latest",
      "messages":[{"role":"user","content":"a"}], "precision":"fp32", "options":{"temperature":0.5, "top_k":3,
      "top_p":0.75, "min_p":0.25, "repeat_penalty":1.5, "presence_penalty":0.5, "frequency_penalty":0.25, "seed":7,
      "num_predict":9, "stop":["x","y"], "attention_backend":"math", "num_ctx":2048, "num_gpu":1}})");
  EXPECT_EQ(request.model, "tiny:latest");
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.top_p, 0.75F);
  EXPECT_EQ(request.sampling.min_p, 0.25F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.sampling.presence_penalty, 0.5F);
  EXPECT_EQ(request.sampling.frequency_penalty, 0.25F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_EQ(request.stopping.max_tokens, 9);
  EXPECT_THAT(request.stopping.stop, ElementsAre("x", "y"));
  EXPECT_EQ(request.execution.attention_backend, engine::AttentionBackend::kMath);
  EXPECT_EQ(request.execution.precision, engine::Precision::kFp32);
  EXPECT_TRUE(request.ignored.empty());
}

// Programs that keep all options as floats send such.
TEST_F(Fields, WholeNumbersMayHaveAPoint) {
  const ClientRequest request = Read(GenerationApi::kGenerate, R"({"model":"tiny","prompt":"a",
      "options":{"num_predict":3.0,"top_k":40.0,"seed":1.0,"repeat_last_n":-1.0,"num_ctx":2048.0}})");
  EXPECT_EQ(request.stopping.max_tokens, 3);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.seed, 1U);
  EXPECT_TRUE(request.ignored.empty());
  EXPECT_EQ(Error(GenerationApi::kGenerate, R"("prompt":"a","options":{"num_predict":3.5})"),
            "options.num_predict is 3.5; limit is an integer in [-2147483648, 2147483647]");
}

TEST_F(Fields, ATopPOfZeroLeavesTheMostLikelyToken) {
  for (const char* zero : {"0", "0.0"}) {
    const ClientRequest request = Read(
        GenerationApi::kGenerate, std::string(R"({"model":"tiny","prompt":"a","options":{"top_p":)") + zero + "}}");
    EXPECT_EQ(request.sampling.top_p, std::numeric_limits<float>::min()) << "no token has so little";
  }
}

TEST_F(Fields, NumbersThatMeanNoneSetNothing) {
  for (const char* tokens : {"-1", "-1.0", "-2", "0"}) {
    const ClientRequest request =
        Read(GenerationApi::kGenerate,
             std::string(R"({"model":"tiny","prompt":"a","options":{"seed":-1,"num_predict":)") + tokens + "}}");
    EXPECT_FALSE(request.stopping.max_tokens.has_value()) << tokens;
    EXPECT_FALSE(request.sampling.seed.has_value());
  }
}

TEST_F(Fields, MessagesBecomeThoseOfTheTemplate) {
  const ClientRequest request = Read(GenerationApi::kChat, R"({"model":"tiny","messages":[
      {"role":"System","content":"s"}, {"role":"user","content":"u","images":[]},
      {"role":"assistant","thinking":"t","tool_calls":[{"id":"i","type":"function",
         "function":{"index":0,"name":"f","arguments":{"b":1,"a":[2]}}}]},
      {"role":"tool","tool_name":"f","content":"r"}],
      "tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search"}]})");
  EXPECT_EQ(MessagesOf(request),
            R"([{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant",)"
            R"("reasoning_content":"t","tool_calls":[{"id":"i","type":"function","function":{"name":"f",)"
            R"("arguments":"{\"b\":1,\"a\":[2]}"}}]},{"role":"tool","content":"r","name":"f"}])");
  EXPECT_EQ(std::get<text::ChatInput>(request.prompt).tools_json, R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(request.ignored.List(), "tools[web_search]");
}

TEST_F(Fields, ThePromptIsAChatUnlessItIsRaw) {
  const ClientRequest chat = Read(GenerationApi::kGenerate, R"({"model":"tiny","prompt":"p","system":"s"})");
  EXPECT_EQ(MessagesOf(chat), R"([{"role":"system","content":"s"},{"role":"user","content":"p"}])");
  EXPECT_FALSE(chat.untemplated_prompt.has_value()) << "the system's text would be lost";
  const ClientRequest raw = Read(GenerationApi::kGenerate, R"({"model":"tiny","prompt":"p","raw":true})");
  EXPECT_EQ(std::get<std::string>(raw.prompt), "p");
  EXPECT_TRUE(raw.parse_special_tokens);
}

// <bytes of an image>, then the text.
std::string PartsOf(const text::ChatMessage& message) {
  EXPECT_FALSE(message.content.has_value());
  std::string line = message.role + ":";
  for (const text::ChatPart& part : message.parts) {
    line += part.type == "image" ? " <" + *part.image + ">" : " " + part.text;
  }
  return line;
}

TEST_F(Fields, ImagesComeBeforeTheText) {
  const ClientRequest chat = Read(GenerationApi::kChat, R"({"model":"tiny","messages":[
      {"images":["Zm9v","YmFy"],"content":"u","role":"user"}, {"role":"tool","tool_name":"f","images":["YmF6"]}]})");
  const std::vector<text::ChatMessage>& messages = std::get<text::ChatInput>(chat.prompt).messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(PartsOf(messages[0]), "user: <foo> <bar> u");
  EXPECT_EQ(PartsOf(messages[1]), "tool: <baz>");
}

TEST_F(Fields, ImagesOfAPromptMakeItAChat) {
  const ClientRequest request =
      Read(GenerationApi::kGenerate, R"({"model":"tiny","images":["Zm9v"],"prompt":"p","system":"s"})");
  const std::vector<text::ChatMessage>& messages = std::get<text::ChatInput>(request.prompt).messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].content, "s");
  EXPECT_EQ(PartsOf(messages[1]), "user: <foo> p");
  const ClientRequest alone = Read(GenerationApi::kGenerate, R"({"model":"tiny","images":["Zm9v"]})");
  EXPECT_FALSE(alone.loads_only);
  EXPECT_FALSE(alone.untemplated_prompt.has_value()) << "the image would be lost";
  EXPECT_EQ(PartsOf(std::get<text::ChatInput>(alone.prompt).messages[0]), "user: <foo>");
}

TEST_F(Fields, ThinkSetsTheTemplatesVariables) {
  const std::pair<const char*, const char*> kRows[] = {
      {"true", R"({"enable_thinking":true})"},
      {"false", R"({"enable_thinking":false})"},
      {R"("high")", R"({"enable_thinking":true,"reasoning_effort":"high"})"},
  };
  for (const auto& [think, options] : kRows) {
    const ClientRequest request =
        Read(GenerationApi::kChat,
             std::string(R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"think":)") + think + "}");
    EXPECT_EQ(std::get<text::ChatInput>(request.prompt).template_options_json, options);
  }
}

TEST_F(Fields, AnAssistantsLastMessageIsContinued) {
  const auto continues = [this](const std::string& last) {
    const ClientRequest request =
        Read(GenerationApi::kChat, R"({"model":"tiny","messages":[{"role":"user","content":"a"},)" + last + "]}");
    const auto& chat = std::get<text::ChatInput>(request.prompt);
    EXPECT_NE(chat.continue_final_message, chat.add_generation_prompt);
    return chat.continue_final_message;
  };
  EXPECT_TRUE(continues(R"({"role":"assistant","content":"b"})"));
  EXPECT_FALSE(continues(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]})"));
  EXPECT_FALSE(continues(R"({"role":"user","content":"b"})"));
}

TEST_F(Fields, FormatIsAConstraint) {
  const auto of = [this](const std::string& format) {
    return Read(GenerationApi::kGenerate, R"({"model":"tiny","prompt":"a","format":)" + format + "}").structured_output;
  };
  EXPECT_EQ(of(R"("json")")->kind, text::GrammarKind::kJsonObject);
  EXPECT_EQ(of(R"({"type":"integer"})")->kind, text::GrammarKind::kJsonSchema);
  EXPECT_EQ(of(R"({"type":"integer"})")->text, R"({"type":"integer"})");
  EXPECT_FALSE(of(R"("")").has_value());
  EXPECT_FALSE(of("null").has_value());
}

TEST_F(Fields, WhatHasNoEffectIsNamedUnlessItIsAMatterOfMemory) {
  const ClientRequest request = Read(GenerationApi::kChat, R"({"model":"tiny","messages":[{"role":"user","content":"a",
      "mood":1}],"keep_alive":"5m","truncate":true,"shift":false,"options":{"repeat_last_n":64,"num_thread":4,"rope":1}})");
  EXPECT_EQ(request.ignored.List(), "messages[].mood, truncate, options.repeat_last_n, options.rope");
  EXPECT_TRUE(Read(GenerationApi::kChat, R"({"model":"tiny","messages":[{"role":"user","content":"a"}],
      "truncate":false,"options":{"repeat_last_n":-1}})")
                  .ignored.empty());
}

TEST_F(Fields, WhatHasNoEffectIsRefusedWhereTheServerIsStrict) {
  CallFacts facts = Facts();
  facts.response.strict = true;
  const auto error = [&facts](const std::string& members) {
    GenerationTranslator translator(GenerationApi::kChat, facts);
    ClientRequest request;
    return std::string(translator.Read(R"({"model":"tiny",)" + members + "}", &request).message());
  };
  EXPECT_EQ(error(R"("mood":1)"), "mood is not a field of this request");
  EXPECT_THAT(error(R"("options":{"repeat_last_n":64})"), StartsWith("options.repeat_last_n is "));
  EXPECT_THAT(error(R"("tools":[{"type":"web_search"}])"), StartsWith("tools[0].type is "));
  EXPECT_EQ(error(R"("keep_alive":0,"options":{"num_ctx":64})"), "") << "a matter of memory";
}

TEST_F(Fields, RefusalsNameTheMember) {
  const std::pair<const char*, const char*> kChatErrors[] = {
      {R"("messages":[{"role":"user","content":"a","images":["aGk=","https://secret"]}])",
       "messages[0].images[1] is not base64: error at byte 6"},
      {R"("messages":[{"role":"user","content":"a","images":["aGk",""]}])",
       "messages[0].images[1] is an empty image; limit is the bytes of an image file"},
      {R"("messages":[{"role":"user","content":"a","images":"aGk="}])",
       "messages[0].images is a string; limit is an array"},
      {R"("messages":[{"role":"robot","content":"a"}])",
       R"(messages[0].role is "robot"; limit is "system", "user", "assistant" or "tool")"},
      {R"("messages":[{"content":"a"}])", "messages[0].role is missing; limit is a string"},
      {R"("messages":"a")", "messages is a string; limit is an array"},
      {R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.arguments is a string; limit is an object"},
      {R"("format":"xml")", R"(format is "xml"; limit is "json" or a JSON Schema)"},
      {R"("format":1)", R"(format is 1; limit is "json" or a JSON Schema)"},
      {R"("think":"some")", R"(think is "some"; limit is true, false, "low", "medium", "high" or "max")"},
      {R"("options":{"mirostat":1})",
       "options.mirostat has a value that is not supported: top_p, top_k and min_p choose tokens; limit is 0"},
      {R"("options":{"precision":"nf4"})", R"(options.precision is "nf4"; limit is auto, )"},
      {R"("options":{"precision":"bf16"},"precision":"nf4")", R"(precision is "nf4"; limit is auto, )"},
      {R"("options":{"precision":"bf16"},"precision":"fp8")",
       "precision is another one than the request has elsewhere; limit is one"},
      {R"("_debug_render_only":true)",
       "_debug_render_only has a value that is not supported: POST /tokenize tells the tokens of a chat; limit is "
       "false"},
  };
  for (const auto& [members, error] : kChatErrors) {
    EXPECT_THAT(Error(GenerationApi::kChat, members), StartsWith(error));
  }
  const std::pair<const char*, const char*> kGenerateErrors[] = {
      {R"("prompt":"a","suffix":"b")",
       "suffix has a value that is not supported: models here continue a text at its end; limit is \"\""},
      {R"("prompt":"a","template":"b")",
       "template has a value that is not supported: models[].chat_template sets it; limit is \"\""},
      {R"("prompt":"a","context":[1])",
       "context has a value that is not supported: /api/chat takes the messages of a conversation; limit is []"},
      {R"("prompt":"a","images":["a"])", "images[0] is not base64: it is cut off, or padded where it does not end"},
      {R"("prompt":"a","raw":true,"images":["aGk="])",
       "images is given with raw; limit is requests without \"raw\": true"},
      {R"("prompt":"a","width":512)",
       "width has a value that is not supported: models here write text alone; limit is 0"},
      {R"("prompt":"a","raw":true,"system":"s")", "system is given with raw; limit is requests without \"raw\": true"},
  };
  for (const auto& [members, error] : kGenerateErrors) EXPECT_EQ(Error(GenerationApi::kGenerate, members), error);
}

TEST_F(Fields, AnErrorHasTheMessageWhereClientsLookForIt) {
  EXPECT_EQ(ErrorBody(absl::InternalError("a \"b\"")), R"({"error":"a \"b\""})");
  EXPECT_EQ(Chat(R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"options":{"top_p":2}})"),
            R"({"error":"options.top_p is 2; limit is (0, 1]","reason":"INVALID_FIELD","field":"options.top_p",)"
            R"("limit":"(0, 1]"})");
  EXPECT_EQ(Chat(R"({"model":"nope:latest","messages":[{"role":"user","content":"a"}]})"),
            R"({"error":"model 'nope:latest' not found","reason":"UNKNOWN_MODEL"})");
  EXPECT_EQ(Chat("[]"), R"({"error":"the body is not a JSON object","reason":"MALFORMED_MESSAGE"})");
}

TEST_F(Fields, AModelThatSeesNoImagesSaysSoOfTheImage) {
  const Json chat = Json::parse(Chat(
      R"({"model":"tiny","messages":[{"role":"system","content":"s"},{"role":"user","content":"a","images":["Zm9v"]}]})"));
  EXPECT_THAT(chat["field"].get<std::string>(), StartsWith("messages[1].images")) << chat;
  const Json prompt = Json::parse(Generate(R"({"model":"tiny","prompt":"a","images":["Zm9v"]})"));
  EXPECT_EQ(prompt["field"], "images") << prompt;
}

TEST_F(Fields, NamingReadsBothNamesOfTheMember) {
  EXPECT_EQ(ReadNaming(R"({"model":"a","verbose":true})")->model, "a");
  EXPECT_EQ(ReadNaming(R"({"name":"b","stream":false})")->model, "b");
  EXPECT_FALSE(ReadNaming(R"({"name":"b","stream":false})")->stream);
  EXPECT_EQ(std::string(ReadNaming("{}").status().message()), "model is missing; limit is a string");
}

}  // namespace
}  // namespace dunlin::server::ollama
