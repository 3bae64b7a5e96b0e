// SPDX-License-Identifier: Apache-2.0
// What a rerank call holds and how many tokens it may make, and which inputs a prompt may precede.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

constexpr int64_t kMessageBytes = 100;  // of FakeEmbedCall

std::shared_ptr<FakeEmbedCall> StartEmbed(Harness* harness, const ClientEmbedRequest& request) {
  const auto call = std::make_shared<FakeEmbedCall>(request);
  FakeEmbedCall::Start(&harness->core, call);
  return call;
}

ClientEmbedRequest Rerank(const std::string& query, int documents) {
  ClientEmbedRequest request;
  request.field_names = &kFakeFieldNames;
  request.model = "reranker";
  request.rerank.emplace().query = query;
  for (int i = 0; i < documents; ++i) request.inputs.emplace_back(std::string("Many fly."));
  return request;
}

TEST(RerankLimits, DocumentsThatTheCallerKeepsStayAdmittedUntilItsEnd) {
  Harness harness;
  harness.models.AddEncoder("reranker", "bert_rerank", {});
  for (const bool kept : {false, true}) {
    harness.models.control().held = true;
    ClientEmbedRequest request = Rerank("a", 2);
    request.rerank->keeps_texts = kept;
    std::shared_ptr<FakeEmbedCall> call = StartEmbed(&harness, request);
    ASSERT_TRUE(Eventually([&] { return !harness.models.model("reranker").encoder->stats().idle; }));
    EXPECT_TRUE(Eventually([&] { return harness.core.admission_stats().queued_bytes == (kept ? kMessageBytes : 0); }));
    harness.models.control().held = false;
    EXPECT_TRUE(call->WaitUntilFinished().ok());
    call.reset();
    EXPECT_TRUE(Eventually([&] { return harness.core.admission_stats().requests == 0; }));
    EXPECT_EQ(harness.core.admission_stats().queued_bytes, 0);
  }
}

// The query precedes each document, so that few bytes may make many tokens.
TEST(RerankLimits, ThePairsOfACallFitTheQueue) {
  engine::EngineOptions options;
  options.max_queued_tokens = 150;
  Harness harness;
  harness.models.AddEncoder("reranker", "bert_rerank", options);
  const std::string query(20, 'a');
  const auto few = StartEmbed(&harness, Rerank(query, 1));
  ASSERT_TRUE(few->WaitUntilFinished().ok());
  const int32_t tokens_of_pair = few->usage().prompt_tokens;
  ASSERT_GT(tokens_of_pair, 10);
  const int fitting = 150 / tokens_of_pair;
  // The queue has the tokens of a call until just after its end.
  ASSERT_TRUE(Eventually([&] { return harness.models.model("reranker").encoder->stats().idle; }));
  EXPECT_TRUE(StartEmbed(&harness, Rerank(query, fitting))->WaitUntilFinished().ok());
  ASSERT_TRUE(Eventually([&] { return harness.models.model("reranker").encoder->stats().idle; }));
  const absl::Status refused = StartEmbed(&harness, Rerank(query, fitting + 1))->WaitUntilFinished();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      refused.message(),
      "inputs make, with the query before each, more than 150 tokens; limit is 150 (scheduler.max_queued_tokens)");
}

TEST(RerankLimits, APromptPrecedesTextsAlone) {
  Harness harness;
  harness.models.AddEncoder("prompted", "qwen3_embedding", {});
  ClientEmbedRequest request;
  request.field_names = &kFakeFieldNames;
  request.model = "prompted";
  request.inputs.emplace_back(std::string("Many fly."));
  request.inputs.emplace_back(std::vector<engine::TokenId>{5, 6});
  const auto finish = [&] { return StartEmbed(&harness, request)->WaitUntilFinished(); };
  EXPECT_TRUE(finish().ok());
  request.prompt_name = "document";
  EXPECT_TRUE(finish().ok()) << "an empty prompt changes nothing";
  request.prompt_name = "query";
  const absl::Status refused = finish();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "prompt_name names a prompt, which precedes texts alone; limit is no token ids among the inputs");
  request.inputs.pop_back();
  EXPECT_TRUE(finish().ok());
}

}  // namespace
}  // namespace dunlin::server
