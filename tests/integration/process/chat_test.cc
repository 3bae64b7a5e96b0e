// SPDX-License-Identifier: Apache-2.0
// Chats with the binary: `dunlin generate --chat` and its kin against a server whose configuration gives the template,
// and a template that does not compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr char kBirdTemplate[] =
    "{% for m in messages %}{% if m.role == 'bird' %}{{ raise_exception('Birds do not chat.') }}{% endif %}"
    "{{ m.role }}: {{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{{ m.mood }}{{ eos_token }}{% endfor %}"
    "{{ tools | tojson if tools }}{{ topic }}{% if add_generation_prompt %}assistant:{% endif %}";

std::vector<std::string> WithTemplate(const std::string& text) {
  return {"--set", "models.0.precisions=[\"bf16\"]", "--set", "models.0.chat_template=" + text};
}

// Two tokens, if the arguments do not say otherwise.
CommandResult GenerateTwoTokens(const ServerProcess& server, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"generate", "--address", server.grpc(), "--model", "demo"};
  if (std::count(arguments.begin(), arguments.end(), "--max-tokens") == 0) all.insert(all.end(), {"--max-tokens", "2"});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunDunlin(all);
}

std::string PromptOf(const ServerProcess& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--json", "--show-prompt"});
  const CommandResult result = GenerateTwoTokens(server, arguments);
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  EXPECT_EQ(json["token_ids"].size(), 2U) << result.out;
  return json.value("prompt", "none");
}

TEST(ChatCommand, SendsMessagesToolsAndOptions) {
  const ServerProcess server(kDemo, WithTemplate(kBirdTemplate));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(PromptOf(server, {"--chat", "--ignore-eos", "Hi"}), "user: Hi<|endoftext|>assistant:");
  EXPECT_EQ(PromptOf(server, {"--ignore-eos", "plain"}), "plain");
  const char* messages = R"([
      {"role": "system", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "mood": "!"},
      {"role": "assistant", "content": null,
       "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": [1.0]}}}]}])";
  EXPECT_EQ(PromptOf(server, {"--messages", messages, "--tools", R"([{"name": "f"}])", "--template-options",
                              R"({"topic": "birds"})", "--ignore-eos"}),
            "system: one\ntwo!<|endoftext|>"
            "assistant: [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
            "{\"b\": 1, \"a\": [1.0]}}}]<|endoftext|>[{\"name\": \"f\"}]birdsassistant:");
  EXPECT_EQ(PromptOf(server, {"--messages", R"([{"role": "assistant", "content": "Once upon"}])",
                              "--continue-final-message", "--ignore-eos"}),
            "assistant: Once upon");

  const CommandResult refused =
      GenerateTwoTokens(server, {"--json", "--messages", R"([{"role": "bird", "content": "x"}])"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(refused.out, HasSubstr("chat is refused by the model's chat template: Birds do not chat."));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--chat"},
                                             {"--messages", "{"},
                                             {"--messages", "[1]"},
                                             {"--chat", "--messages", "[]", "x"},
                                             {"--tools", "[]", "x"},
                                             {"--show-prompt", "x"}}) {
    EXPECT_EQ(GenerateTwoTokens(server, wrong).status, 2) << wrong[0];
  }
}

TEST(ChatCommand, AConversationAnswersAsGenerateDoes) {
  const ServerProcess server(kDemo, WithTemplate(kBirdTemplate));
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::vector<std::string> greedy = {"--temperature", "0", "--max-tokens", "6", "--ignore-eos"};
  std::vector<std::string> arguments = {"chat", "--address", server.grpc()};
  arguments.insert(arguments.end(), greedy.begin(), greedy.end());
  const CommandResult chat = RunDunlinWithInput(
      arguments, "Hello\nAgain\n/profile math:bf16\n/regenerate\n/profile\n/profile auto:fp8\nRefused\n/history\n");
  EXPECT_EQ(chat.status, 1) << "the demo has no fp8 here";
  EXPECT_THAT(chat.err, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(chat.out, HasSubstr(R"("attention_backend":"math","precision":"bf16")"));
  const size_t begin = chat.out.rfind("\n[{");
  ASSERT_NE(begin, std::string::npos) << chat.out;
  const Json history = Json::parse(chat.out.substr(begin), nullptr, false);
  ASSERT_EQ(history.size(), 5U) << chat.out;
  EXPECT_EQ(history[4]["content"], "Refused");
  std::vector<std::string> once = {"--json", "--attention-backend", "math", "--messages",
                                   Json({history[0], history[1], history[2]}).dump()};
  once.insert(once.end(), greedy.begin(), greedy.end());
  const Json answer = Json::parse(GenerateTwoTokens(server, once).out, nullptr, false);
  EXPECT_EQ(answer["text"], history[3]["content"]);
  EXPECT_EQ(answer["finish"]["reason"], "length");
}

// The text is what transformers makes of the same chat with the template of models/demo.
TEST(ChatCommand, TheDemoModelHasATemplateWithToolsAndEndsItsTurn) {
  const ServerProcess server(kDemo, {"--set", "models.0.precisions=[\"bf16\"]"});
  ASSERT_TRUE(server.ready()) << server.Log();
  const char* messages = R"([
      {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Oslo?"},
      {"role": "assistant", "content": null, "tool_calls": [
          {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]},
      {"role": "tool", "content": "{\"sky\": \"clear\"}"}])";
  EXPECT_EQ(PromptOf(server, {"--messages", messages, "--tools", R"([{"name": "get_weather"}])", "--ignore-eos"}),
            "<|im_start|>system\nBe brief.\n<tools>\n{\"name\": \"get_weather\"}\n</tools>\n"
            "Call a tool as <tool_call>{\"name\": ..., \"arguments\": ...}</tool_call><|im_end|>\n"
            "<|im_start|>user\nWeather in Oslo?<|im_end|>\n"
            "<|im_start|>assistant\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
            "</tool_call><|im_end|>\n"
            "<|im_start|>user\n<tool_response>\n{\"sky\": \"clear\"}\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
  const CommandResult answer = RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--json",
                                          "--temperature", "0", "--max-tokens", "64", "--chat", "Hello!"});
  ASSERT_EQ(answer.status, 0) << answer.out << answer.err;
  const Json json = Json::parse(answer.out, nullptr, false);
  EXPECT_EQ(json["text"], "Hello! How can I help you?");
  EXPECT_LT(json["token_ids"].size(), 64U) << "the end of the message stops the output";
}

TEST(ChatCommand, AModelWithABrokenTemplateServesTextAndSaysWhyNotChats) {
  const ServerProcess server(kDemo, WithTemplate("{% if %}"));
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(GenerateTwoTokens(server, {"text"}).status, 0);
  const CommandResult chat = GenerateTwoTokens(server, {"--json", "--chat", "hello"});
  EXPECT_EQ(chat.status, 1);
  EXPECT_THAT(chat.out, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(chat.out, HasSubstr("the model takes no chats: its chat template is of no use: chat template, line 1: "));
  EXPECT_THAT(chat.out, HasSubstr("set models[].chat_template"));
}

TEST(ChatCommand, ATemplateFileThatIsNotThereStopsTheStart) {
  const ServerProcess server(kDemo, WithTemplate("/no/such/template.jinja"));
  EXPECT_FALSE(server.ready());
  EXPECT_THAT(server.Log(), HasSubstr("models[].chat_template /no/such/template.jinja: No such file or directory"));
}

}  // namespace
}  // namespace dunlin::integration
