// SPDX-License-Identifier: Apache-2.0
// Chats through the serving core: reasoning and tool calls of every output come apart from its text, tool_choice
// decides which, and nothing is divided where the client does not want it. The scripted model repeats its prompt, which
// the template makes of the last message and an end of sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/base/string_view.h"
#include "server/serving/chat/chat_plan.h"
#include "server/serving/record/errors.h"
#include "tests/server/serving/fake_front.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;
using Mode = ClientToolChoice::Mode;

constexpr char kTools[] =
    R"([{"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}])";
constexpr char kCall[] = "<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1}}</tool_call>";

struct ChatFront : testing::Test {
  ChatFront() {
    harness.models.AddChatting("hermes",
                               "{# <tool_call> </think> #}{{ messages[-1].content }}{{ '<|endoftext|>' }}{% if tools "
                               "%}[{{ tools | length }}]{% endif %}");
    harness.models.AddChatting("thinks", "{# </think> #}{{ messages[-1].content }}{{ '<|endoftext|><think>' }}");
    harness.models.AddChatting("mistral", "{# [TOOL_CALLS] #}{{ messages[-1].content }}{{ '<|endoftext|>' }}");
    harness.models.AddChatting("kimi",
                               "{# <|tool_calls_section_begin|> #}{{ messages[-1].content }}{{ '<|endoftext|>' }}");
    harness.models.AddChatting("plain", "{{ messages[-1].content }}{{ '<|endoftext|>' }}");
  }
  static ClientRequest Request(const std::string& output, const std::string& tools = kTools,
                               const std::string& model = "hermes") {
    ClientRequest request = ClientTextRequest("", 300);
    request.model = model;
    text::ChatInput chat;
    chat.messages.emplace_back().role = "user";
    chat.messages[0].content = output;
    chat.tools_json = tools;
    request.prompt = chat;
    return request;
  }
  std::string Refusal(const ClientRequest& request) {
    const absl::Status status = harness.Generate(request).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(engine::StdView(status.message()));
  }
  Harness harness;
};

TEST_F(ChatFront, DividesReasoningTextAndCalls) {
  const FakeResponse response =
      harness.Generate(Request(std::string("<think>\nHm.\n</think>\n\nYes. ") + kCall + "\n" + kCall + " So."));
  ASSERT_TRUE(response.status.ok()) << response.status;
  const FakeOutput& output = response.outputs.at(0);
  EXPECT_EQ(output.reasoning, "Hm.");
  EXPECT_EQ(output.text, "Yes.  So.");
  ASSERT_THAT(output.calls, SizeIs(2));
  for (const ToolCallDelta& call : output.calls) {
    EXPECT_EQ(call.name, "ping");
    EXPECT_EQ(call.arguments, "{\"n\": 1}");
    EXPECT_THAT(call.id, MatchesRegex("call_[A-Za-z0-9]{24}"));
  }
  EXPECT_NE(output.calls[0].id, output.calls[1].id);
  EXPECT_TRUE(output.finish.has_tool_calls);
  EXPECT_EQ(output.finish.reason, engine::FinishReason::kStop);
}

TEST_F(ChatFront, EveryOutputHasAParser) {
  ClientRequest request = Request(std::string("a") + kCall);
  request.num_outputs = 2;
  const FakeResponse response = harness.Generate(request);
  ASSERT_THAT(response.outputs, SizeIs(2));
  for (const auto& [index, output] : response.outputs) {
    EXPECT_EQ(output.text, index == 0 ? "a" : "");
    EXPECT_THAT(output.calls, SizeIs(1)) << index;
  }
}

TEST_F(ChatFront, AnOutputBeginsInTheReasoningThatThePromptOpens) {
  ClientRequest request = Request("I think.</think>Yes.", "", "thinks");
  const FakeResponse response = harness.Generate(request);
  EXPECT_EQ(response.outputs.at(0).reasoning, "I think.");
  EXPECT_EQ(response.outputs.at(0).text, "Yes.");
}

TEST_F(ChatFront, MistralsIdsAreNineLettersAndDigits) {
  const FakeResponse response = harness.Generate(Request("[TOOL_CALLS]ping[ARGS]{}", kTools, "mistral"));
  ASSERT_THAT(response.outputs.at(0).calls, SizeIs(1));
  EXPECT_THAT(response.outputs.at(0).calls[0].id, MatchesRegex("[A-Za-z0-9]{9}"));
}

TEST_F(ChatFront, KimisIdsAreThoseThatTheModelWrites) {
  const FakeResponse response = harness.Generate(
      Request("<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:4<|tool_call_argument_begin|>{}"
              "<|tool_call_end|><|tool_calls_section_end|>",
              kTools, "kimi"));
  const FakeOutput& output = response.outputs.at(0);
  EXPECT_EQ(output.text, "");
  ASSERT_THAT(output.calls, SizeIs(1));
  EXPECT_EQ(output.calls[0].id, "functions.ping:4");
  EXPECT_EQ(output.calls[0].name, "ping");
  EXPECT_EQ(output.calls[0].arguments, "{}");
}

TEST_F(ChatFront, ACallThatDoesNotEndIsText) {
  const std::string begun = "<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1";
  const FakeResponse response = harness.Generate(Request(begun));
  const FakeOutput& output = response.outputs.at(0);
  EXPECT_EQ(output.text, begun);
  EXPECT_FALSE(output.finish.has_tool_calls);
  ASSERT_THAT(output.calls, SizeIs(1)) << "its arguments came as they were written";
  EXPECT_EQ(output.calls[0].arguments, "{\"n\": 1");
}

// What the model wrote is what a client without a parser gets.
TEST_F(ChatFront, NothingIsDividedWithoutNeed) {
  const std::string all = std::string("<think>a</think>b") + kCall;
  ClientRequest raw = Request(all);
  raw.output.raw_chat = true;
  EXPECT_EQ(harness.Generate(raw).outputs.at(0).text, all);
  ClientRequest ids = Request(all);
  ids.output.omit_text = true;
  const FakeOutput output = harness.Generate(ids).outputs.at(0);
  EXPECT_EQ(output.text + output.reasoning, "");
  EXPECT_THAT(output.calls, SizeIs(0));
  EXPECT_EQ(harness.Generate(Request(all, kTools, "plain")).outputs.at(0).text, all);
  ClientRequest text = Request("");
  text.prompt = all + "!";
  text.stopping.max_tokens = 20;
  EXPECT_THAT(harness.Generate(text).outputs.at(0).text, HasSubstr("<think>"));
}

TEST_F(ChatFront, WithoutToolsCallsAreText) {
  const FakeOutput output = harness.Generate(Request(std::string("<think>a</think>b") + kCall, "")).outputs.at(0);
  EXPECT_EQ(output.reasoning, "a");
  EXPECT_EQ(output.text, std::string("b") + kCall);
}

TEST_F(ChatFront, NoneHidesTheToolsFromTheTemplate) {
  ClientRequest request = Request(kCall);
  request.output.echo = true;
  EXPECT_THAT(harness.Generate(request).outputs.at(0).text, HasSubstr("</tool_call>[1]"));
  request.tool_choice.mode = Mode::kNone;
  const FakeOutput output = harness.Generate(request).outputs.at(0);
  EXPECT_EQ(output.text, std::string(kCall) + kCall);
  EXPECT_THAT(output.calls, SizeIs(0));
}

TEST_F(ChatFront, WithoutParallelCallsTheFirstOneEndsTheOutput) {
  ClientRequest request = Request(std::string("a") + kCall + kCall + "and more");
  request.tool_choice.parallel = false;
  const FakeOutput output = harness.Generate(request).outputs.at(0);
  EXPECT_EQ(output.text, "a");
  EXPECT_THAT(output.calls, SizeIs(1));
  EXPECT_TRUE(output.finish.has_tool_calls);
  EXPECT_EQ(output.finish.reason, engine::FinishReason::kStop);
  EXPECT_FALSE(output.finish.stop_string.has_value());
  EXPECT_TRUE(harness.EngineIdle());
  EXPECT_EQ(harness.observer.WaitFor(1).at(0).finish_reason, "stop");
}

TEST_F(ChatFront, StopStringsAreSoughtInWhatTheModelWrites) {
  ClientRequest request = Request(std::string("a") + kCall + "b");
  request.stopping.stop = {"\"n\""};
  const FakeOutput output = harness.Generate(request).outputs.at(0);
  EXPECT_EQ(output.finish.stop_string, "\"n\"");
  EXPECT_EQ(output.text, "a<tool_call>{\"name\": \"ping\", \"arguments\": {");
  EXPECT_FALSE(output.finish.has_tool_calls);
}

TEST_F(ChatFront, TokensAndLogprobsComeAsWithoutAParser) {
  ClientRequest request = Request(std::string("a") + kCall);
  request.output.logprobs = 0;
  request.sampling.seed = 1;
  const FakeResponse divided = harness.Generate(request);
  request.output.raw_chat = true;
  const FakeResponse raw = harness.Generate(request);
  EXPECT_EQ(divided.outputs.at(0).token_ids, raw.outputs.at(0).token_ids);
  const auto count = [](const FakeResponse& response) {
    size_t scores = 0;
    for (const OutputChunk& chunk : response.chunks) scores += chunk.logprobs.size();
    return scores;
  };
  EXPECT_EQ(count(divided), count(raw));
}

TEST_F(ChatFront, RefusesChoicesThatNoCallCanMeet) {
  ClientRequest required = Request("x", "");
  required.tool_choice.mode = Mode::kRequired;
  EXPECT_EQ(Refusal(required), "tool_choice is required without tools_json; limit is a chat with tools");
  required.prompt = std::string("text");
  EXPECT_EQ(Refusal(required), "tool_choice is required; limit is a chat with tools");
  ClientRequest named = Request("x");
  named.tool_choice.mode = Mode::kNamed;
  named.tool_choice.name = "fly\n";
  EXPECT_EQ(Refusal(named),
            "tool_choice.name is \"fly\\n\", which tools_json does not have; limit is the name of one of the tools");
  named.tool_choice.name = "ping";
  named.structured_output.emplace();
  EXPECT_EQ(Refusal(named), "tool_choice names a tool beside structured_output; limit is one of the two");
  named.structured_output.reset();
  named.model = "plain";
  EXPECT_THAT(Refusal(named), HasSubstr("the form of this model's tool calls is not known (models[].tool_parser)"));
  EXPECT_EQ(
      Refusal([] {
        ClientRequest request = Request("x", R"([{"name": "two words"}])");
        request.tool_choice.mode = Mode::kRequired;
        return request;
      }()),
      "tools_json has a function named \"two words\"; limit is names of 1 to 64 letters, digits, '_', '.' or '-'");
  EXPECT_EQ(Refusal([] {
              ClientRequest request = Request("x", R"([{"name": "a"}, {"name": "b"}, {"name": "a"}])");
              request.tool_choice.mode = Mode::kRequired;
              return request;
            }()),
            "tools_json has two functions named \"a\"; limit is one");
  EXPECT_THAT(Refusal([] {
                std::string tools = "[";
                for (size_t i = 0; i <= kMaxGrammarTools; ++i)
                  tools += (i == 0 ? "{\"name\":\"f" : ",{\"name\":\"f") + std::to_string(i) + "\"}";
                ClientRequest request = Request("x", tools + "]");
                request.tool_choice.mode = Mode::kRequired;
                return request;
              }()),
              HasSubstr("limit is 128"));
}

TEST_F(ChatFront, DemandedCallsAndStructuredOutputBecomeAGrammar) {
  const ServedModel& model = harness.models.model("hermes");
  ClientRequest request = Request("x");
  request.tool_choice.mode = Mode::kNamed;
  request.tool_choice.name = "ping";
  ASSERT_TRUE(SettleToolChoice(model, &request).ok());
  ASSERT_TRUE(SettleConstraint(model, "x", &request).ok());
  ASSERT_TRUE(request.structured_output.has_value());
  EXPECT_EQ(request.structured_output->kind, text::GrammarKind::kComposed);
  EXPECT_THAT(request.structured_output->text, HasSubstr("start: thinking calls\n"));
  const text::GrammarSource regex = {text::GrammarKind::kRegex, "a+", {}};
  ClientRequest structured = Request("x");
  structured.structured_output = regex;
  ASSERT_TRUE(SettleConstraint(model, "x", &structured).ok());
  EXPECT_THAT(structured.structured_output->text, HasSubstr("start: thinking @part_0\n"));
  EXPECT_EQ(structured.structured_output->parts.at(0), regex);
  ClientRequest text = ClientTextRequest("x", 1);
  text.structured_output = regex;
  ASSERT_TRUE(SettleConstraint(model, "", &text).ok());
  EXPECT_EQ(text.structured_output, regex) << "no chat, no reasoning";
}

TEST_F(ChatFront, ASchemaThatIsNoGrammarIsRefusedByTheFieldThatTheClientSet) {
  ClientRequest tools = Request("x", R"([{"name": "f", "parameters": {"properties": {"a": {"not": {}}}}}])");
  tools.tool_choice.mode = Mode::kRequired;
  const absl::Status of_tools = harness.Generate(tools).status;
  EXPECT_EQ(of_tools.message(), "tools_json in function \"f\" has \"not\" at #/properties/a, which is not supported");
  EXPECT_EQ(DetailsOf(of_tools).reason, "GRAMMAR_UNSUPPORTED");
  EXPECT_EQ(DetailsOf(of_tools).field, "tools_json");
  ClientRequest structured = Request("x", "");
  structured.structured_output = {text::GrammarKind::kJsonSchema, R"({"not": {}})", {}};
  const absl::Status of_schema = harness.Generate(structured).status;
  EXPECT_EQ(DetailsOf(of_schema).reason, "GRAMMAR_UNSUPPORTED");
  EXPECT_EQ(DetailsOf(of_schema).field, "json_schema");
  structured.structured_output = {text::GrammarKind::kRegex, "^a", {}};
  EXPECT_EQ(DetailsOf(harness.Generate(structured).status).field, "regex");
}

TEST(ChatOutput, DropsAllSpecialTokensButThoseThatItNeeds) {
  const auto tokenizer = text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/chat/byte_level", 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string written =
      "<|channel|>analysis<|message|>Hm<|eot|>.<|end|><|start|>assistant<|channel|>commentary to=functions.ping "
      "json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>So<|im_end|>.";
  const auto ids = (*tokenizer)->Encode(written, {.add_special_tokens = false, .parse_special = true});
  ASSERT_TRUE(ids.ok());
  ServedModel model;
  model.chat_forms = {text::FindReasoningFormat("gpt_oss"), text::FindToolFormat("gpt_oss")};
  model.tokenizer = text::Tokenizer::Load(DUNLIN_SOURCE_DIR "/tests/golden/chat/byte_level", 0).value();
  OutputText::Options options;
  options.tokenizer = tokenizer->get();
  options.chat = PlanChatOutput(model, ChatFront::Request("x"), "<|start|>assistant", 1 << 20);
  ASSERT_TRUE(options.chat.has_value());
  options.chat->draw_letters = [](size_t count) { return std::string(count, 'x'); };
  auto output = OutputText::Create(options);
  ASSERT_TRUE(output.ok()) << output.status();
  OutputChunk chunk;
  for (const engine::TokenId id : *ids) ASSERT_TRUE(output->Add({.id = id}, {}, &chunk).ok());
  ASSERT_TRUE(output->Finish(&chunk).ok());
  EXPECT_EQ(chunk.reasoning, "Hm.");
  EXPECT_EQ(chunk.text, "So.");
  ASSERT_THAT(chunk.tool_calls, SizeIs(1));
  EXPECT_EQ(chunk.tool_calls[0].id, "call_" + std::string(24, 'x'));
  EXPECT_EQ(chunk.tool_calls[0].arguments, "{}");
  EXPECT_EQ(chunk.token_ids, *ids);
}

}  // namespace
}  // namespace dunlin::server
