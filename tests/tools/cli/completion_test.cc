// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/completion.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

v1::ToolCallDelta* AddDelta(int tool_index, const std::string& arguments, v1::GenerateResponse* response) {
  v1::ToolCallDelta* delta = response->add_tool_call_delta();
  delta->set_tool_index(tool_index);
  delta->set_arguments_delta(arguments);
  return delta;
}

TEST(Completion, JoinsReasoningTextAndCalls) {
  Completion completion;
  v1::GenerateResponse response;
  response.set_reasoning_delta("hm");
  v1::ToolCallDelta* first = AddDelta(0, "{\"a\"", &response);
  first->set_id("x");
  first->set_name("f");
  completion.Add(response);
  v1::GenerateResponse more;
  more.set_text_delta("yes");
  more.set_reasoning_delta("!");
  AddDelta(0, ":1}", &more);
  AddDelta(1, "{}", &more)->set_name("g");
  more.mutable_finish()->set_reason(v1::FINISH_REASON_TOOL_CALLS);
  completion.Add(more);
  const Json json = completion.ToJson();
  EXPECT_EQ(json["text"], "yes");
  EXPECT_EQ(json["reasoning"], "hm!");
  EXPECT_EQ(json["tool_calls"].dump(),
            R"([{"id":"x","name":"f","arguments":"{\"a\":1}"},{"id":"","name":"g","arguments":"{}"}])");
  EXPECT_EQ(json["finish"]["reason"], "tool_calls");
}

TEST(Completion, StrangeCallIndicesAllocateNothing) {
  Completion completion;
  v1::GenerateResponse response;
  AddDelta(2000000000, "a", &response);
  AddDelta(-5, "b", &response);
  completion.Add(response);
  ASSERT_EQ(completion.outputs[0].tool_calls.size(), 1U);
  EXPECT_EQ(completion.outputs[0].tool_calls[0].arguments_json(), "ab");
}

TEST(Completion, LogprobsHaveRanksAndBytes) {
  Completion completion;
  v1::GenerateResponse response;
  v1::TokenLogprob* entry = response.add_logprobs();
  entry->set_token_id(7);
  entry->set_logprob(-0.5F);
  entry->set_rank(2);
  entry->set_token_bytes("\xf0\x9f");
  v1::TopLogprob* top = entry->add_top();
  top->set_token_id(8);
  top->set_logprob(-0.25F);
  completion.Add(response);
  EXPECT_EQ(completion.ToJson()["logprobs"].dump(), R"([{"token_id":7,"logprob":-0.5,"rank":2,"bytes":[240,159],)"
                                                    R"("top":[{"token_id":8,"logprob":-0.25,"bytes":null}]}])");
}

TEST(Completion, FinishReasonsHaveTheirNames) {
  EXPECT_EQ(FinishWord(v1::FINISH_REASON_STOP), "stop");
  EXPECT_EQ(FinishWord(v1::FINISH_REASON_LENGTH), "length");
  EXPECT_EQ(FinishWord(v1::FINISH_REASON_CONSTRAINT), "constraint");
  EXPECT_EQ(FinishWord(static_cast<v1::FinishReason>(99)), "?");
}

TEST(Completion, AnOutputThatABoundEndedSaysWhich) {
  Completion completion;
  v1::GenerateResponse response;
  v1::Finish* finish = response.mutable_finish();
  finish->set_reason(v1::FINISH_REASON_CONSTRAINT);
  EXPECT_EQ(IncompleteNote(*finish, true), "the output may be incomplete: finish reason constraint");
  completion.Add(response);
  EXPECT_FALSE(completion.ToJson()["finish"].contains("constraint_error"));
  finish->set_constraint_error("limit is 250 ms");
  EXPECT_EQ(IncompleteNote(*finish, true), "the output may be incomplete: finish reason constraint: limit is 250 ms");
  completion.Add(response);
  EXPECT_EQ(completion.ToJson()["finish"]["constraint_error"], "limit is 250 ms");
}

TEST(Completion, DecodeSpeedIsThatOfLaterTokens) {
  v1::Finish finish;
  finish.mutable_usage()->set_completion_tokens(11);
  finish.mutable_timings()->set_ttft_ms(100);
  finish.mutable_timings()->set_total_ms(600);
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond(finish), 20.0);
  finish.mutable_usage()->set_completion_tokens(1);
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond(finish), 0.0);
}

}  // namespace
}  // namespace dunlin::cli
