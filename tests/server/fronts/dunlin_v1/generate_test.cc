// SPDX-License-Identifier: Apache-2.0
// Successful Generate calls: the content and order of messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

TEST(Generate, StreamsTextAndReportsTheProfile) {
  EdgeServer edge;
  const Reply reply = edge.Generate(TextRequest("abc", 7));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const Reply::Output& output = reply.outputs.at(0);
  EXPECT_EQ(output.text, "abcabca");
  EXPECT_EQ(output.token_ids.size(), 7U);
  EXPECT_EQ(output.num_finishes, 1);
  EXPECT_EQ(output.finish.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(output.finish.usage().prompt_tokens(), 3);
  EXPECT_EQ(output.finish.usage().completion_tokens(), 7);
  EXPECT_GT(output.finish.timings().total_ms(), 0.0);
  EXPECT_GE(output.finish.timings().total_ms(), output.finish.timings().ttft_ms());

  const v1::GenerateResponse& first = reply.messages.front();
  EXPECT_EQ(first.execution().device(), v1::DEVICE_CPU);
  EXPECT_EQ(first.execution().attention_backend(), v1::ATTENTION_BACKEND_FLASH);
  EXPECT_EQ(first.execution().precision(), v1::PRECISION_FP32);
  EXPECT_EQ(first.execution().kv_dtype(), "fp32");
  for (size_t i = 1; i < reply.messages.size(); ++i) {
    EXPECT_FALSE(reply.messages[i].has_execution()) << i;
    EXPECT_EQ(reply.messages[i].request_id(), "") << i;
  }
  EXPECT_TRUE(reply.messages.back().has_finish());

  const std::vector<RequestRecord> records = edge.observer().WaitFor(1);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].request_id, first.request_id());
  EXPECT_EQ(records[0].model, "tiny");
  EXPECT_TRUE(records[0].status.ok());
  EXPECT_EQ(records[0].finish_reason, "length");
  EXPECT_EQ(records[0].completion_tokens, 7);
  EXPECT_EQ(records[0].max_tokens, 7);
  EXPECT_EQ(edge.observer().intervals(), 6);
}

TEST(Generate, AnIdleEnginesFirstTokenComesWithTheFirstMessage) {
  EdgeServer edge;
  const Reply reply = edge.Generate(TextRequest("abc", 1));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_THAT(reply.messages, SizeIs(1));
  EXPECT_TRUE(reply.messages[0].has_execution());
  EXPECT_TRUE(reply.messages[0].has_finish());
  EXPECT_EQ(reply.outputs.at(0).text, "a");
}

TEST(Generate, ABusyEnginesFirstMessageComesAtOnce) {
  EdgeServer edge;
  edge.control().held = true;
  std::thread neighbour([&edge] { EXPECT_TRUE(edge.Generate(TextRequest("abc", 3)).status.ok()); });
  EXPECT_TRUE(Eventually([&edge] { return !edge.model("tiny").engine->stats().idle; }));
  grpc::ClientContext context;
  const auto stub = edge.stub();
  const auto reader = stub->Generate(&context, TextRequest("abc", 2));
  v1::GenerateResponse first;
  EXPECT_TRUE(reader->Read(&first)) << "while no step is done";
  EXPECT_TRUE(first.has_execution());
  EXPECT_EQ(first.token_ids_size(), 0);
  edge.control().held = false;
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok());
  neighbour.join();
}

TEST(Generate, TakesTheNamedProfile) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("ab", 2);
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_MATH);
  request.mutable_execution()->set_precision(v1::PRECISION_BF16);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.messages.front().execution().attention_backend(), v1::ATTENTION_BACKEND_MATH);
  EXPECT_EQ(reply.messages.front().execution().kv_dtype(), "bf16");
}

TEST(Generate, ThreeOutputsShareOneStream) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("xyz", 50);
  request.mutable_sampling()->set_n(3);
  request.mutable_output()->set_prompt_logprobs(0);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_THAT(reply.outputs, SizeIs(3));
  EXPECT_EQ(reply.outputs.at(0).text.substr(0, 4), "xyzx");
  EXPECT_EQ(reply.outputs.at(1).text.substr(0, 4), "yzxy");
  EXPECT_EQ(reply.outputs.at(2).text.substr(0, 4), "zxyz");
  for (const auto& [index, output] : reply.outputs) {
    EXPECT_EQ(output.text.size(), 50U) << index;
    EXPECT_EQ(output.num_finishes, 1) << index;
  }
  EXPECT_THAT(reply.prompt_logprobs, SizeIs(2));  // once, not three times
  const RequestRecord record = edge.observer().WaitFor(1).at(0);
  EXPECT_EQ(record.completion_tokens, 150);
  EXPECT_EQ(record.num_outputs, 3);
}

TEST(Generate, StopStringAcrossTokensEndsTheOutputAndKeepsItsIds) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("a b c END d e f ", 200);
  request.mutable_stopping()->add_stop("c EN");
  request.mutable_output()->set_logprobs(0);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const Reply::Output& output = reply.outputs.at(0);
  EXPECT_EQ(output.text, "a b ");
  EXPECT_EQ(output.finish.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(output.finish.stop(), "c EN");
  // Ids up to and with the token that completed the string; no later one, however far the engine had run ahead.
  EXPECT_EQ(output.finish.usage().completion_tokens(), static_cast<int>(output.token_ids.size()));
  EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
  EXPECT_LT(output.token_ids.size(), 12U);
  EXPECT_EQ(edge.observer().WaitFor(1).at(0).finish_reason, "stop");

  request.mutable_stopping()->set_include_stop(true);
  EXPECT_EQ(edge.Generate(request).outputs.at(0).text, "a b c EN");
}

TEST(Generate, StopStringOfOneOutputLeavesTheOthersAlone) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("", 9);
  for (const int id : {80, 81, 82}) request.mutable_token_ids()->add_ids(id);  // "p" "q" "r"
  request.mutable_sampling()->set_n(2);
  request.mutable_stopping()->add_stop("qrpqrpqrp");  // all of output 1; output 0 is one byte short of it
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).text, "pqrpqrpqr");
  EXPECT_EQ(reply.outputs.at(0).finish.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(reply.outputs.at(1).text, "");
  EXPECT_EQ(reply.outputs.at(1).finish.reason(), v1::FINISH_REASON_STOP);
}

TEST(Generate, EndOfSequenceAndStopTokensAddNoText) {
  EdgeServer edge;
  v1::GenerateRequest request;
  request.set_model("tiny");
  for (const int id : {65, 66, 0, 67}) request.mutable_token_ids()->add_ids(id);  // "a" "b" <|endoftext|> "c"
  Reply reply = edge.Generate(request);
  EXPECT_EQ(reply.outputs.at(0).text, "ab");
  EXPECT_THAT(reply.outputs.at(0).token_ids, ElementsAre(65, 66, 0));
  EXPECT_EQ(reply.outputs.at(0).finish.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(reply.outputs.at(0).finish.stop_token_id(), 0);

  request.mutable_stopping()->add_stop_token_ids(66);
  reply = edge.Generate(request);
  EXPECT_EQ(reply.outputs.at(0).text, "a");
  EXPECT_EQ(reply.outputs.at(0).finish.stop_token_id(), 66);

  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_stopping()->clear_stop_token_ids();
  request.mutable_stopping()->set_max_tokens(5);
  request.mutable_output()->set_keep_special_tokens(true);
  EXPECT_EQ(edge.Generate(request).outputs.at(0).text, "ab<|endoftext|>ca");
}

TEST(Generate, LogprobsAndPromptLogprobsArriveWhole) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("abcd", 6);
  request.mutable_output()->set_logprobs(3);
  request.mutable_output()->set_prompt_logprobs(2);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const Reply::Output& output = reply.outputs.at(0);
  ASSERT_EQ(output.logprobs.size(), output.token_ids.size());
  for (size_t i = 0; i < output.logprobs.size(); ++i) {
    EXPECT_EQ(output.logprobs[i], ScriptedRuntime::LogprobOf(output.token_ids[i]));
    EXPECT_EQ(output.num_top[i], 3);
  }
  ASSERT_THAT(reply.prompt_logprobs, SizeIs(output.finish.usage().prompt_tokens() - 1));
  EXPECT_EQ(reply.prompt_logprobs[0].top_size(), 2);
  const v1::TokenLogprob& first = reply.prompt_logprobs[0];
  EXPECT_EQ(first.rank(), first.token_id() + 1) << "the scripted runtime's";
  EXPECT_EQ(first.token_bytes(), "b");
  for (const v1::GenerateResponse& message : reply.messages) {
    for (const v1::TokenLogprob& logprob : message.logprobs()) EXPECT_EQ(logprob.rank(), logprob.token_id() + 1);
  }
}

TEST(Generate, EchoPutsThePromptsTextFirstInEveryOutput) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("abcd", 3);
  request.mutable_output()->set_echo(true);
  request.mutable_output()->set_prompt_logprobs(0);
  request.mutable_sampling()->set_n(2);
  request.mutable_stopping()->add_stop("bcd");  // in the prompt, and in neither output
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.outputs.at(0).text, StartsWith("abcd"));
  EXPECT_THAT(reply.outputs.at(1).text, StartsWith("abcd"));
  EXPECT_GT(reply.outputs.at(0).text.size(), 4U);
  EXPECT_THAT(reply.prompt_logprobs, SizeIs(reply.outputs.at(0).finish.usage().prompt_tokens() - 1));

  request.mutable_output()->set_omit_text(true);
  request.mutable_stopping()->clear_stop();
  const Reply refused = edge.Generate(request);
  EXPECT_EQ(refused.status.error_message(),
            "output.echo needs the text that output.omit_text leaves out; limit is one of the two");
}

TEST(Generate, ALongEchoIsSplitBetweenCharacters) {
  EdgeServerOptions options;
  options.limits.max_message_bytes = 1024;
  EdgeServer edge(options);
  std::string text;
  for (int i = 0; i < 170; ++i) text += i % 3 == 0 ? "😀" : "ab ";
  v1::GenerateRequest request = TextRequest(text, 1);
  request.mutable_output()->set_echo(true);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.outputs.at(0).text, StartsWith(text));
  EXPECT_GE(reply.messages.size(), 2U);
  for (const v1::GenerateResponse& message : reply.messages) EXPECT_LE(message.text_delta().size(), 512U);
}

TEST(Generate, TruncationKeepsTheLastTokensOfThePrompt) {
  EdgeServer edge;
  v1::GenerateRequest request;
  request.set_model("tiny");
  for (const int id : {5, 6, 7, 8}) request.mutable_token_ids()->add_ids(id);
  request.mutable_stopping()->set_max_tokens(3);
  request.set_truncate_prompt_tokens(2);
  Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.outputs.at(0).token_ids, ElementsAre(7, 8, 7));
  EXPECT_EQ(reply.outputs.at(0).finish.usage().prompt_tokens(), 2);

  request.set_truncate_prompt_tokens(4);
  EXPECT_EQ(edge.Generate(request).outputs.at(0).finish.usage().prompt_tokens(), 4);
  request.set_truncate_prompt_tokens(0);
  EXPECT_THAT(edge.Generate(request).status.error_message(), StartsWith("truncate_prompt_tokens is 0; limit is [1, "));

  v1::GenerateRequest long_text = TextRequest(std::string(4 * kTinyContext, 'x') + "abcd", 2);
  EXPECT_FALSE(edge.Generate(long_text).status.ok());
  long_text.set_truncate_prompt_tokens(10);
  reply = edge.Generate(long_text);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).finish.usage().prompt_tokens(), 10);
}

TEST(Generate, OmitTextAndModelsWithoutTokenizerReturnOnlyIds) {
  EdgeServer edge;
  v1::GenerateRequest request;
  for (const int id : {5, 6, 7}) request.mutable_token_ids()->add_ids(id);
  request.mutable_stopping()->set_max_tokens(4);
  request.set_model("bare");
  EXPECT_THAT(edge.Generate(request).outputs.at(0).token_ids, ElementsAre(5, 6, 7, 5));
  request.set_model("tiny");
  request.mutable_output()->set_omit_text(true);
  const Reply reply = edge.Generate(request);
  EXPECT_EQ(reply.outputs.at(0).text, "");
  EXPECT_THAT(reply.outputs.at(0).token_ids, ElementsAre(5, 6, 7, 5));
}

TEST(Generate, UnsetMaxTokensIsTheDefaultOrWhatTheContextLeaves) {
  EdgeServerOptions options;
  options.limits.default_max_tokens = 20;
  EdgeServer edge(options);
  v1::GenerateRequest request = TextRequest("ab", 1);
  request.clear_stopping();
  EXPECT_EQ(edge.Generate(request).outputs.at(0).token_ids.size(), 20U);
  request.mutable_token_ids()->mutable_ids()->Resize(kTinyContext - 8, 70);
  EXPECT_EQ(edge.Generate(request).outputs.at(0).token_ids.size(), 8U);
}

TEST(Generate, RequestIdComesFromMessageOrMetadataOrIsDrawn) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("ab", 1);
  const auto setup = [](grpc::ClientContext* context) { context->AddMetadata("x-request-id", "from-metadata"); };
  Reply reply = edge.Generate(request, setup);
  EXPECT_EQ(reply.messages.front().request_id(), "from-metadata");
  EXPECT_THAT(reply.initial_metadata, testing::Contains(Pair("x-request-id", "from-metadata")));
  request.set_request_id("from-message");
  EXPECT_EQ(edge.Generate(request, setup).messages.front().request_id(), "from-message");
  request.clear_request_id();
  const std::string drawn = edge.Generate(request).messages.front().request_id();
  EXPECT_EQ(drawn.size(), 32U);
  EXPECT_NE(drawn, edge.Generate(request).messages.front().request_id());
}

TEST(Generate, ReasoningAndToolCallsHaveFieldsOfTheirOwn) {
  EdgeServer edge;
  edge.models().AddChatting("calls", "{# <tool_call> </think> #}{{ messages[-1].content }}{{ '<|endoftext|>' }}");
  v1::GenerateRequest request;
  request.set_model("calls");
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("<think>Hm</think>Yes<tool_call>{\"name\": \"ping\", \"arguments\": {\"n\": 1}}</tool_call>");
  request.mutable_chat()->set_tools_json(R"([{"type": "function", "function": {"name": "ping"}}])");
  request.mutable_sampling()->set_temperature(0);
  const Reply reply = edge.Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  std::string reasoning;
  std::string name;
  std::string id;
  std::string arguments;
  for (const v1::GenerateResponse& one : reply.messages) {
    reasoning += one.reasoning_delta();
    for (const v1::ToolCallDelta& delta : one.tool_call_delta()) {
      EXPECT_EQ(delta.tool_index(), 0);
      id += delta.id();
      name += delta.name();
      arguments += delta.arguments_delta();
    }
  }
  EXPECT_EQ(reasoning, "Hm");
  EXPECT_EQ(reply.outputs.at(0).text, "Yes");
  EXPECT_EQ(name, "ping");
  EXPECT_EQ(arguments, "{\"n\": 1}");
  EXPECT_THAT(id, StartsWith("call_"));
  EXPECT_EQ(reply.outputs.at(0).finish.reason(), v1::FINISH_REASON_TOOL_CALLS);
  request.mutable_output()->set_raw_chat_output(true);
  const Reply raw = edge.Generate(request);
  EXPECT_EQ(raw.outputs.at(0).text, message->content());
  EXPECT_EQ(raw.outputs.at(0).finish.reason(), v1::FINISH_REASON_STOP);
}

}  // namespace
}  // namespace dunlin::server
