// SPDX-License-Identifier: Apache-2.0
// VllmEngine.Generate and Embed: what comes back, streamed and not, and every field that is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/fronts/smg_worker/generate_messages.h"
#include "tests/server/fronts/smg_worker/engine_client.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::_;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(VllmGenerate, StreamsDeltasAndEndsEachOutputWithAComplete) {
  EdgeServer edge;
  const EngineReply reply = EngineClient(edge).Generate(IdsRequest({40, 41, 42}, 7));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.ids(), ElementsAre(40, 41, 42, 40, 41, 42, 40));
  EXPECT_TRUE(reply.has_request_id);
  uint32_t counted = 0;
  for (const auto& chunk : reply.chunks) {
    counted += chunk.completion_tokens();
    EXPECT_EQ(chunk.prompt_tokens(), 3U);
  }
  EXPECT_EQ(counted, 7U);
  ASSERT_THAT(reply.completes, SizeIs(1));
  const wire::GenerateComplete& end = reply.completes[0];
  EXPECT_THAT(end.output_ids(), IsEmpty()) << "they were streamed";
  EXPECT_EQ(end.finish_reason(), "length");
  EXPECT_EQ(end.prompt_tokens(), 3U);
  EXPECT_EQ(end.completion_tokens(), 7U);
  EXPECT_EQ(end.matched_stop_case(), wire::GenerateComplete::MATCHED_STOP_NOT_SET);
}

TEST(VllmGenerate, WithoutAStreamEachOutputIsOneComplete) {
  EdgeServer edge;
  wire::GenerateRequest request = IdsRequest({40, 41, 42}, 4);
  request.set_stream(false);
  request.mutable_sampling_params()->set_n(2);
  request.mutable_sampling_params()->set_logprobs(1);
  request.mutable_sampling_params()->set_prompt_logprobs(0);
  const EngineReply reply = EngineClient(edge).Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.chunks, IsEmpty());
  ASSERT_THAT(reply.completes, SizeIs(2));
  EXPECT_NE(reply.completes[0].index(), reply.completes[1].index());
  for (const wire::GenerateComplete& output : reply.completes) {
    // The test's model begins output i at the prompt's token i.
    const uint32_t first = 40 + output.index();
    const uint32_t last = output.index() == 0 ? 40 : 41;
    EXPECT_THAT(output.output_ids(), ElementsAre(first, _, _, last)) << output.index();
    EXPECT_THAT(output.output_logprobs().token_ids(), ElementsAre(first, _, _, last)) << output.index();
    EXPECT_THAT(output.output_logprobs().token_logprobs(), SizeIs(4)) << output.index();
    ASSERT_THAT(output.output_logprobs().top_logprobs(), SizeIs(4)) << output.index();
    EXPECT_THAT(output.output_logprobs().top_logprobs(0).token_ids(), SizeIs(1)) << output.index();
    EXPECT_EQ(output.has_input_logprobs(), output.index() == 0);
    if (output.index() != 0) continue;
    EXPECT_THAT(output.input_logprobs().token_ids(), ElementsAre(40, 41, 42));
    EXPECT_FALSE(output.input_logprobs().token_logprobs(0).has_value()) << "the first token";
    EXPECT_TRUE(output.input_logprobs().token_logprobs(1).has_value());
  }
}

TEST(VllmGenerate, StreamedLogprobsGoWithTheirTokens) {
  EdgeServer edge;
  wire::GenerateRequest request = IdsRequest({40, 41}, 5);
  request.mutable_sampling_params()->set_logprobs(2);
  request.mutable_sampling_params()->set_prompt_logprobs(0);
  const EngineReply reply = EngineClient(edge).Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  for (size_t i = 0; i < reply.chunks.size(); ++i) {
    const auto& chunk = reply.chunks[i];
    EXPECT_EQ(chunk.output_logprobs().token_ids_size(), chunk.token_ids_size()) << i;
    EXPECT_EQ(chunk.output_logprobs().top_logprobs(0).token_ids_size(), 2) << i;
    EXPECT_EQ(chunk.has_input_logprobs(), i == 0) << i;
  }
}

TEST(VllmGenerate, StopsAtStopStringsAndStopTokens) {
  EdgeServer edge;
  wire::GenerateRequest request;
  request.set_text("abc");
  request.set_stream(true);
  request.mutable_sampling_params()->set_max_tokens(50);
  request.mutable_sampling_params()->add_stop("bca");
  const EngineReply text = EngineClient(edge).Generate(request);
  ASSERT_TRUE(text.status.ok()) << text.status.error_message();
  ASSERT_THAT(text.completes, SizeIs(1));
  EXPECT_EQ(text.completes[0].finish_reason(), "stop");
  EXPECT_EQ(text.completes[0].matched_stop_str(), "bca");

  wire::GenerateRequest ids = IdsRequest({40, 41, 42}, 50);
  ids.mutable_sampling_params()->add_stop_token_ids(42);
  const EngineReply token = EngineClient(edge).Generate(ids);
  ASSERT_TRUE(token.status.ok()) << token.status.error_message();
  EXPECT_EQ(token.completes[0].finish_reason(), "stop");
  EXPECT_EQ(token.completes[0].matched_token_id(), 42U);
}

TEST(VllmGenerate, TakesAsManyTokensAsTheContextLeaves) {
  EdgeServer edge;
  const EngineReply reply = EngineClient(edge).Generate(IdsRequest({40, 41}, 1'000'000));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.completes[0].completion_tokens(), static_cast<uint32_t>(kTinyContext - 2));
}

TEST(VllmGenerate, ConstraintsAreTheCores) {
  using text::GrammarKind;
  using P = wire::SamplingParams;
  const struct {
    std::function<void(P*)> set;
    text::GrammarSource expected;
  } rows[] = {
      {[](P* p) { p->set_json_schema("{}"); }, {GrammarKind::kJsonSchema, "{}", {}}},
      {[](P* p) { p->set_regex("a+"); }, {GrammarKind::kRegex, "a+", {}}},
      {[](P* p) { p->set_grammar("root ::= \"a\""); }, {GrammarKind::kGrammar, "root ::= \"a\"", {}}},
      {[](P* p) { p->set_json_object(true); }, {GrammarKind::kJsonObject, "", {}}},
      {[](P* p) { p->mutable_choice()->add_choices("no"); }, {GrammarKind::kChoice, "", {"no"}}},
  };
  for (const auto& row : rows) {
    wire::GenerateRequest message = IdsRequest({40}, 1);
    row.set(message.mutable_sampling_params());
    ClientRequest request;
    ASSERT_TRUE(GenerateRequestFromWire(&message, &request).ok());
    ASSERT_TRUE(request.structured_output.has_value());
    EXPECT_EQ(*request.structured_output, row.expected);
  }
  wire::GenerateRequest none = IdsRequest({40}, 1);
  none.mutable_sampling_params()->set_json_object(false);
  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&none, &request).ok());
  EXPECT_FALSE(request.structured_output.has_value());
}

// proto/smg: 0 is the model's default of top_p and repetition_penalty, which cannot be 0, and a value of all others.
TEST(VllmGenerate, ZeroIsAbsentWhereItIsNoValue) {
  wire::GenerateRequest message;
  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&message, &request).ok());
  EXPECT_EQ(request.sampling.temperature, std::nullopt);
  EXPECT_EQ(request.sampling.top_p, std::nullopt);
  EXPECT_EQ(request.sampling.repetition_penalty, std::nullopt);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.min_p, 0.0F);

  wire::SamplingParams& params = *message.mutable_sampling_params();
  params.set_temperature(0.0F);
  params.set_top_p(0.5F);
  params.set_top_k(4'000'000'000U);
  params.set_min_p(0.25F);
  params.set_repetition_penalty(1.5F);
  params.set_presence_penalty(-1.0F);
  params.set_frequency_penalty(2.0F);
  request = {};
  ASSERT_TRUE(GenerateRequestFromWire(&message, &request).ok());
  EXPECT_EQ(request.sampling.temperature, 0.0F);
  EXPECT_EQ(request.sampling.top_p, 0.5F);
  EXPECT_EQ(request.sampling.top_k, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(request.sampling.min_p, 0.25F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.sampling.presence_penalty, -1.0F);
  EXPECT_EQ(request.sampling.frequency_penalty, 2.0F);
}

// A request, and what the refusal says.
struct BadRow {
  std::function<void(wire::GenerateRequest*)> set;
  const char* says;
};

TEST(VllmGenerate, WhatItCannotDoIsRefusedByName) {
  using R = wire::GenerateRequest;
  const BadRow rows[] = {
      {[](R* r) { r->mutable_kv_transfer_params(); }, "kv_transfer_params is given"},
      {[](R* r) { r->set_kv_transfer_params_json("{}"); }, "kv_transfer_params_json is given"},
      {[](R* r) { r->mutable_mm_inputs(); }, "mm_inputs is given"},
      {[](R* r) { r->add_extra_mm_inputs(); }, "extra_mm_inputs is given"},
      {[](R* r) { r->mutable_media_refs(); }, "media_refs is given"},
      {[](R* r) { r->set_data_parallel_rank(1); }, "data_parallel_rank is 1; limit is 0"},
      {[](R* r) { r->mutable_sampling_params()->set_structural_tag("{}"); }, "sampling_params.structural_tag is given"},
      {[](R* r) { r->mutable_sampling_params()->set_temperature(-1.0F); }, "sampling_params.temperature"},
      {[](R* r) { r->mutable_sampling_params()->set_top_p(2.0F); }, "sampling_params.top_p"},
      {[](R* r) { r->mutable_sampling_params()->set_min_tokens(4'000'000'000U); },
       "sampling_params.min_tokens is 4000000000; limit is [0, 2147483647]"},
      {[](R* r) { r->mutable_sampling_params()->set_n(4'000'000'000U); }, "sampling_params.n is 4000000000"},
      {[](R* r) { r->mutable_sampling_params()->add_stop_token_ids(4'000'000'000U); },
       "sampling_params.stop_token_ids[0] is 4000000000"},
      {[](R* r) { r->mutable_sampling_params()->set_n(99); }, "sampling_params.n"},
      {[](R* r) { r->mutable_sampling_params()->set_logprobs(-1); }, "sampling_params.logprobs"},
      {[](R* r) { r->mutable_sampling_params()->set_truncate_prompt_tokens(-1); }, "sampling_params.truncate_prompt"},
      {[](R* r) { r->mutable_sampling_params()->set_json_schema("{"); }, "sampling_params.json_schema"},
      {[](R* r) { (*r->mutable_sampling_params()->mutable_logit_bias())[-5] = 1.0F; }, "sampling_params.logit_bias"},
      {[](R* r) { r->mutable_tokenized()->add_input_ids(4'000'000'000U); }, "tokenized.input_ids[3] is 4000000000"},
      {[](R* r) { r->mutable_tokenized()->clear_input_ids(); }, "tokenized.input_ids"},
      {[](R* r) { r->clear_input(); }, "input"},
      {[](R* r) { r->set_request_id(std::string(200, 'x')); }, "request_id"},
  };
  EdgeServer edge;
  const EngineClient client(edge);
  for (const BadRow& row : rows) {
    wire::GenerateRequest request = IdsRequest({40, 41, 42}, 2);
    row.set(&request);
    const EngineReply reply = client.Generate(request);
    EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT) << row.says;
    EXPECT_THAT(reply.status.error_message(), HasSubstr(row.says));
    EXPECT_FALSE(reply.has_request_id) << row.says << ": initial metadata would forbid a retry";
  }
}

TEST(VllmGenerate, AbortEndsTheCallAndFreesItsPages) {
  EdgeServer edge;
  const EngineClient client(edge);
  edge.control().step_us = 1000;
  wire::GenerateRequest request = IdsRequest({40, 41, 42}, 500);
  request.set_request_id("mine");
  Deadline call;
  const auto reader = client.stub()->Generate(&call.context, request);
  wire::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  wire::AbortRequest abort;
  abort.add_request_ids("not running");
  abort.add_request_ids("mine");
  wire::AbortResponse aborted;
  ASSERT_TRUE(client.Call(&wire::VllmEngine::Stub::Abort, abort, &aborted).ok());
  while (reader->Read(&message)) EXPECT_FALSE(message.has_complete());
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().pages_used == 0; }));
}

TEST(VllmEmbed, MakesOneVectorOfTokenIds) {
  EdgeServer edge;
  wire::EmbedRequest request;
  for (const uint32_t id : {1U, 5U, 6U}) request.mutable_tokenized()->add_input_ids(id);
  wire::EmbedResponse response;
  const EngineClient client(edge);
  const grpc::Status status = client.Call(&wire::VllmEngine::Stub::Embed, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.prompt_tokens(), 3U);
  EXPECT_EQ(response.embedding_dim(), static_cast<uint32_t>(response.embedding_size()));
  EXPECT_GT(response.embedding_size(), 0);

  EXPECT_EQ(client.Call(&wire::VllmEngine::Stub::Embed, wire::EmbedRequest(), &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace dunlin::server
