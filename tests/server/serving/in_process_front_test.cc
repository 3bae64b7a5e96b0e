// SPDX-License-Identifier: Apache-2.0
// The serving core behind a second front end: no gRPC and no protobuf. Streaming, several outputs, stop strings,
// cancel, deadline, backpressure, slow readers, refusals and embeddings work as they do over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/serving/record/errors.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr engine::TimeNs kMillisecond = 1'000'000;

text::ChatInput Chat(const std::string& role) {
  text::ChatInput chat;
  chat.messages.emplace_back().role = role;
  chat.messages[0].content = "hello";
  return chat;
}

TEST(InProcessFront, StreamsTextAndReportsTheProfile) {
  Harness harness;
  ClientRequest request = ClientTextRequest("abc", 7);
  request.request_id = "mine";
  const FakeResponse response = harness.Generate(request);
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).text, "abcabca");
  EXPECT_EQ(response.outputs.at(0).finish.reason, engine::FinishReason::kLength);
  EXPECT_EQ(response.outputs.at(0).finish.usage.prompt_tokens, 3);
  EXPECT_EQ(response.outputs.at(0).finish.usage.completion_tokens, 7);
  EXPECT_GT(response.outputs.at(0).finish.timings.total_ms, 0.0);
  EXPECT_EQ(response.request_id, "mine");
  EXPECT_EQ(response.chunks.front().request_id, "mine");
  ASSERT_TRUE(response.chunks.front().profile.has_value());
  EXPECT_EQ(response.chunks.front().profile->attention_backend, engine::AttentionBackend::kFlash);
  for (size_t i = 1; i < response.chunks.size(); ++i) EXPECT_FALSE(response.chunks[i].profile.has_value()) << i;
  const std::vector<RequestRecord> records = harness.observer.WaitFor(1);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].request_id, "mine");
  EXPECT_EQ(records[0].finish_reason, "length");
  EXPECT_EQ(records[0].completion_tokens, 7);
}

TEST(InProcessFront, ALargeMessageTakesTheTextPool) {
  Harness harness;
  const auto call = std::make_shared<FakeGenerateCall>(ClientTextRequest(std::string(300, 'a'), 4));
  FakeGenerateCall::Start(&harness.core, call, engine::kNoDeadline, 400);
  EXPECT_EQ(call->WaitUntilFinished().outputs.at(0).text, "aaaa");
}

TEST(InProcessFront, SeveralOutputsShareOneResponse) {
  Harness harness;
  ClientRequest request = ClientTextRequest("xyz", 20);
  request.num_outputs = 3;
  request.output.prompt_logprobs = 0;
  const FakeResponse response = harness.Generate(request);
  ASSERT_TRUE(response.status.ok()) << response.status;
  ASSERT_THAT(response.outputs, SizeIs(3));
  EXPECT_EQ(response.outputs.at(0).text.substr(0, 4), "xyzx");
  EXPECT_EQ(response.outputs.at(1).text.substr(0, 4), "yzxy");
  EXPECT_EQ(response.outputs.at(2).text.substr(0, 4), "zxyz");
  size_t scores = 0;
  for (const OutputChunk& chunk : response.chunks) scores += chunk.prompt_logprobs.size();
  EXPECT_EQ(scores, 2U) << "the prompt is scored once";
  for (const auto& [index, output] : response.outputs) EXPECT_EQ(output.num_finishes, 1) << index;
}

TEST(InProcessFront, AStopStringEndsTheOutput) {
  Harness harness;
  ClientRequest request = ClientTextRequest("a b c END d e f ", 200);
  request.stopping.stop = {"c EN"};
  const FakeResponse response = harness.Generate(request);
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).text, "a b ");
  EXPECT_EQ(response.outputs.at(0).finish.stop_string, "c EN");
  EXPECT_TRUE(harness.EngineIdle());
}

// The engine stops too: it draws some 20 of the 480 tokens that it was asked for.
TEST(InProcessFront, AStopStringEndsTheWorkOfTheEngine) {
  Harness harness;
  harness.models.control().step_us = 5000;
  ClientRequest request = ClientTextRequest("a b c END d e f ", 480);
  request.stopping.stop = {"c EN"};
  const FakeResponse response = harness.Generate(request);
  EXPECT_EQ(response.outputs.at(0).finish.stop_string, "c EN");
  EXPECT_TRUE(harness.EngineIdle());
  EXPECT_LT(harness.models.control().tokens, 240);
  EXPECT_EQ(harness.observer.WaitFor(1).at(0).finish_reason, "stop");
}

TEST(InProcessFront, ACancelEndsTheCallAndFreesItsPages) {
  Harness harness;
  harness.models.control().step_us = 1000;
  const auto call = std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", 500));
  FakeGenerateCall::Start(&harness.core, call);
  EXPECT_TRUE(Eventually([&] { return call->num_chunks() > 2; }));
  call->Cancel();
  EXPECT_TRUE(absl::IsCancelled(call->WaitUntilFinished().status));
  EXPECT_TRUE(harness.EngineIdle());
  EXPECT_EQ(harness.observer.WaitFor(1).at(0).finish_reason, "cancelled");
}

TEST(InProcessFront, ADeadlineEndsTheCall) {
  Harness harness;
  harness.models.control().step_us = 5000;
  const FakeResponse response =
      harness.Generate(ClientTextRequest("abc", 500), harness.core.now() + 100 * kMillisecond);
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status)) << response.status;
  EXPECT_EQ(response.outputs.empty() ? 0 : response.outputs.at(0).num_finishes, 0);
  EXPECT_TRUE(harness.EngineIdle());
}

TEST(InProcessFront, BatchesTokensWhileAWriteIsOutstanding) {
  Harness harness;
  const auto call = std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", 40));
  call->HoldWrites();
  harness.models.control().step_us = 200;
  FakeGenerateCall::Start(&harness.core, call);
  EXPECT_TRUE(Eventually([&] { return call->num_chunks() == 1 && harness.models.control().tokens == 40; }));
  EXPECT_TRUE(harness.EngineIdle());
  EXPECT_EQ(call->num_chunks(), 1U) << "at most one write is outstanding";
  call->TakeWrite();
  const FakeResponse response = call->WaitUntilFinished();
  EXPECT_TRUE(response.status.ok()) << response.status;
  EXPECT_THAT(response.chunks, SizeIs(2));
  EXPECT_THAT(response.outputs.at(0).token_ids, SizeIs(40));
  call->Close();
}

TEST(InProcessFront, ASlowReaderEndsAndIsCutOff) {
  Limits limits;
  limits.max_unsent_tokens = 16;
  limits.slow_reader_timeout_ms = 100;
  Harness harness(limits);
  harness.models.control().step_us = 2000;  // slower than the text pool
  const auto call = std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", 400));
  call->HoldWrites();
  FakeGenerateCall::Start(&harness.core, call);
  const FakeResponse response = call->WaitUntilFinished();
  EXPECT_EQ(ReasonName(response.status), "SLOW_READER");
  EXPECT_TRUE(harness.EngineIdle()) << "pages are freed while the client still does not read";
  EXPECT_TRUE(Eventually([&] { return call->cut_off(); }));
  EXPECT_EQ(harness.core.admission_stats().requests, 1) << "until the transport is done with the call";
  call->Close();
  EXPECT_TRUE(Eventually([&] { return harness.core.admission_stats().requests == 0; }));
}

TEST(InProcessFront, ViolationsUseTheFrontEndsFieldNames) {
  Harness harness;
  ClientRequest request = ClientTextRequest("abc", 4);
  request.sampling.top_p = 1.5F;
  FakeResponse response = harness.Generate(request);
  EXPECT_EQ(response.status.message(), "nucleus is 1.5; limit is (0, 1]");
  EXPECT_EQ(DetailsOf(response.status).field, "nucleus");
  EXPECT_TRUE(response.chunks.empty());
  EXPECT_EQ(harness.observer.WaitFor(1).at(0).refusal_reason, "INVALID_FIELD");

  request = ClientTextRequest("abc", 4);
  request.stopping.stop = {"x", ""};
  EXPECT_EQ(harness.Generate(request).status.message(), "stop_words.1 has 0 bytes; limit is 1 to 256");
  EXPECT_EQ(harness.Generate(ClientTextRequest(std::string(4000, '!'), 4)).status.message().substr(0, 16),
            "prompt_text has ");
  request = ClientTextRequest("abc", 4);
  request.prompt = std::vector<engine::TokenId>{1, -7};
  EXPECT_EQ(harness.Generate(request).status.message(), "prompt[1] is -7; limit is [0, 902)");
}

TEST(InProcessFront, UnknownModelsAndWrongKindsAreRefused) {
  Harness harness;
  ClientRequest request = ClientTextRequest("abc", 4);
  request.model = "nobody";
  EXPECT_EQ(ReasonName(harness.Generate(request).status), "UNKNOWN_MODEL");
  request.model = "encoder";
  EXPECT_EQ(ReasonName(harness.Generate(request).status), "WRONG_MODEL_KIND");
  request.model = "bare";
  EXPECT_EQ(ReasonName(harness.Generate(request).status), "NO_TOKENIZER");
  request.prompt = text::ChatInput();
  EXPECT_EQ(ReasonName(harness.Generate(request).status), "NO_TOKENIZER");
}

TEST(InProcessFront, AChatStreamsItsAnswer) {
  Harness harness;
  ClientRequest request = ClientTextRequest("", 2);
  request.prompt = Chat("user");
  const FakeResponse response = harness.Generate(request);
  ASSERT_TRUE(response.status.ok()) << response.status;
  EXPECT_EQ(response.outputs.at(0).token_ids.size(), 2U);
  EXPECT_GT(response.outputs.at(0).finish.usage.prompt_tokens, 5);
}

// A call that is refused while it is planned ends on the thread that plans it.
TEST(InProcessFront, ChatsAreRenderedOnTheTextPoolHoweverSmallTheyAre) {
  Harness harness;
  ClientRequest request = ClientTextRequest("", 2);
  EXPECT_EQ(harness.Generate(request).finished_by, std::this_thread::get_id()) << "a small text is planned inline";
  request.prompt = Chat("bird");
  const FakeResponse response = harness.Generate(request);
  EXPECT_EQ(response.status.message(), "chat is refused by the model's chat template: birds do not chat");
  EXPECT_NE(response.finished_by, std::this_thread::get_id());
}

TEST(InProcessFront, MinTokensAreBoundedByTheMaxTokensThatApply) {
  Limits limits;
  limits.default_max_tokens = 5;
  Harness harness(limits);
  ClientRequest request = ClientTextRequest("abc", 1);
  request.stopping.max_tokens.reset();
  request.stopping.min_tokens = 6;
  EXPECT_EQ(harness.Generate(request).status.message(), "min_tokens is 6; limit is [0, 5]");
  request.stopping.min_tokens = 5;
  EXPECT_THAT(harness.Generate(request).outputs.at(0).token_ids, SizeIs(5));
}

TEST(InProcessFront, CallsAreRefusedBeforeReadyAndWhileDraining) {
  Limits limits;
  limits.max_concurrent_requests = 1;
  Harness harness(limits);
  harness.models.control().held = true;
  const auto running = std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", 4));
  FakeGenerateCall::Start(&harness.core, running);
  const FakeResponse refused = harness.Generate(ClientTextRequest("def", 4));
  EXPECT_EQ(ReasonName(refused.status), "TOO_MANY_REQUESTS");
  EXPECT_TRUE(RetryAfterMs(refused.status).has_value());
  EXPECT_TRUE(harness.core.overload()->recent(harness.core.now()));
  harness.models.control().held = false;
  EXPECT_TRUE(running->WaitUntilFinished().status.ok());
  harness.core.StartDraining(AdmissionRefusal::kDraining);
  EXPECT_EQ(ReasonName(harness.Generate(ClientTextRequest("def", 4)).status), "DRAINING");
}

ClientEmbedRequest EmbedTexts(std::initializer_list<const char*> texts) {
  ClientEmbedRequest request;
  request.field_names = &kFakeFieldNames;
  request.model = "encoder";
  for (const char* text : texts) request.inputs.emplace_back(std::string(text));
  return request;
}

TEST(InProcessFront, EmbedsTextsAndTokens) {
  Harness harness;
  const auto texts = std::make_shared<FakeEmbedCall>(EmbedTexts({"A dunlin flies.", "Many fly."}));
  FakeEmbedCall::Start(&harness.core, texts);
  ASSERT_TRUE(texts->WaitUntilFinished().ok());
  ASSERT_THAT(texts->vectors(), SizeIs(2));
  EXPECT_THAT(texts->vectors()[0], SizeIs(36));
  EXPECT_GT(texts->usage().prompt_tokens, 4);

  ClientEmbedRequest cut = EmbedTexts({"A dunlin flies."});
  cut.dimensions = 3;
  cut.normalize = false;
  const auto small = std::make_shared<FakeEmbedCall>(cut);
  FakeEmbedCall::Start(&harness.core, small);
  ASSERT_TRUE(small->WaitUntilFinished().ok());
  EXPECT_THAT(small->vectors()[0], SizeIs(3));
  EXPECT_EQ(harness.observer.WaitFor(2).at(1).num_inputs, 1);
}

TEST(InProcessFront, EmbedViolationsUseTheFrontEndsFieldNames) {
  Harness harness;
  ClientEmbedRequest request = EmbedTexts({});
  request.inputs.emplace_back(std::vector<engine::TokenId>{5, 300});
  const auto call = std::make_shared<FakeEmbedCall>(request);
  FakeEmbedCall::Start(&harness.core, call);
  EXPECT_EQ(call->WaitUntilFinished().message(), "batch.0.1 is 300; limit is [0, 300)");
}

TEST(InProcessFront, AnEmbeddingEndsByCancelAndByDeadline) {
  Harness harness;
  harness.models.control().held = true;
  const auto cancelled = std::make_shared<FakeEmbedCall>(EmbedTexts({"x"}));
  FakeEmbedCall::Start(&harness.core, cancelled);
  EXPECT_TRUE(Eventually([&] { return !harness.models.model("encoder").encoder->stats().idle; }));
  cancelled->Cancel();
  EXPECT_TRUE(absl::IsCancelled(cancelled->WaitUntilFinished()));
  const auto late = std::make_shared<FakeEmbedCall>(EmbedTexts({"y"}));
  FakeEmbedCall::Start(&harness.core, late, harness.core.now() - 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->WaitUntilFinished()));
}

}  // namespace
}  // namespace dunlin::server
