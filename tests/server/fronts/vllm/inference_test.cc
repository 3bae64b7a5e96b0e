// SPDX-License-Identifier: Apache-2.0
// vllm.Inference over a running edge. The model repeats its prompt; log-probabilities follow from the ids.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/fronts/vllm/vllm_client.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

grpc::Status Generate(const EdgeServer& edge, const ::vllm::GenerateRequest& request,
                      ::vllm::GenerateResponse* response) {
  grpc::ClientContext context;
  SetDeadline(&context);
  return ::vllm::Inference::Stub(edge.channel()).Generate(&context, request, response);
}

TEST(VllmInference, StreamsThePromptThenTokens) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(3, 5);
  request.mutable_response()->set_prompt_token_ids(true);
  VllmStream stream(edge, request);
  ASSERT_TRUE(stream.Rest().ok());
  EXPECT_EQ(stream.prompt.num_prompt_tokens(), 3U);
  EXPECT_THAT(stream.prompt.token_ids(), ElementsAre(10, 11, 12));
  EXPECT_THAT(stream.ids, ElementsAre(10, 11, 12, 10, 11));
  EXPECT_FALSE(stream.text.empty());
  EXPECT_EQ(stream.finish.finish_reason(), ::vllm::FinishInfo::LENGTH);
  EXPECT_EQ(stream.finish.num_output_tokens(), 5U);
}

TEST(VllmInference, OneResponseHasWhatAStreamHas) {
  const EdgeServer edge;
  const ::vllm::GenerateRequest request = IdsRequest(3, 50);
  VllmStream stream(edge, request);
  ASSERT_TRUE(stream.Rest().ok());
  ::vllm::GenerateResponse response;
  ASSERT_TRUE(Generate(edge, request, &response).ok());
  EXPECT_EQ(response.prompt_info().num_prompt_tokens(), 3U);
  EXPECT_EQ(response.outputs().text(), stream.text);
  EXPECT_EQ(response.outputs().num_tokens(), 50U);
  EXPECT_EQ(std::vector<uint32_t>(response.outputs().token_ids().begin(), response.outputs().token_ids().end()),
            stream.ids);
  EXPECT_EQ(response.outputs().finish_info().finish_reason(), ::vllm::FinishInfo::LENGTH);
}

TEST(VllmInference, ScoresPromptAndOutput) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(4, 3);
  request.mutable_response()->set_prompt_logprobs(true);
  request.mutable_response()->mutable_prompt_candidates()->set_top_n(1);
  request.mutable_response()->set_output_logprobs(true);
  request.mutable_response()->mutable_output_candidates()->set_top_n(2);
  ::vllm::GenerateResponse response;
  ASSERT_TRUE(Generate(edge, request, &response).ok());
  EXPECT_THAT(response.prompt_info().logprobs(), ElementsAre(0, -11.0F / 128, -12.0F / 128, -13.0F / 128));
  EXPECT_THAT(response.prompt_info().ranks(), ElementsAre(0, 12, 13, 14));
  ASSERT_EQ(response.prompt_info().candidate_tokens_size(), 4);
  EXPECT_EQ(response.prompt_info().candidate_tokens(3).tokens_size(), 1);
  EXPECT_THAT(response.outputs().logprobs(), ElementsAre(-10.0F / 128, -11.0F / 128, -12.0F / 128));
  EXPECT_THAT(response.outputs().ranks(), ElementsAre(11, 12, 13));
  ASSERT_EQ(response.outputs().candidate_tokens_size(), 3);
  ASSERT_EQ(response.outputs().candidate_tokens(0).tokens_size(), 2);
  EXPECT_EQ(response.outputs().candidate_tokens(0).tokens(1).id(), 1U);
  EXPECT_EQ(response.outputs().candidate_tokens(0).tokens(1).rank(), 2U);
}

TEST(VllmInference, PromptScoresComeInTheFirstMessageOfAStream) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(300, 3);
  request.mutable_response()->set_prompt_logprobs(true);
  VllmStream stream(edge, request);
  ASSERT_TRUE(stream.Read());
  EXPECT_EQ(stream.prompt.logprobs_size(), 300);
  ASSERT_TRUE(stream.Rest().ok());
  EXPECT_EQ(stream.ids.size(), 3U);
}

TEST(VllmInference, SeveralOutputsAreToldApart) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(3, 4);
  request.mutable_sampling()->set_num_sequences(2);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = ::vllm::Inference::Stub(edge.channel()).GenerateStream(&context, request);
  std::vector<std::vector<uint32_t>> ids(2);
  int finishes = 0;
  ::vllm::GenerateResponse message;
  while (reader->Read(&message)) {
    ASSERT_LT(message.outputs().index(), 2U);
    std::vector<uint32_t>& own = ids[message.outputs().index()];
    own.insert(own.end(), message.outputs().token_ids().begin(), message.outputs().token_ids().end());
    finishes += message.outputs().has_finish_info() ? 1 : 0;
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(finishes, 2);
  EXPECT_THAT(ids[0], ElementsAre(10, 11, 12, 10));
  EXPECT_THAT(ids[1], ElementsAre(11, 12, 10, 11));
}

TEST(VllmInference, StopsAtATokenAndSaysWhich) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(3, 40);
  request.mutable_stopping()->add_stop_token_ids(12);
  ::vllm::GenerateResponse response;
  ASSERT_TRUE(Generate(edge, request, &response).ok());
  EXPECT_EQ(response.outputs().finish_info().finish_reason(), ::vllm::FinishInfo::STOP);
  EXPECT_EQ(response.outputs().finish_info().stop_token_id(), 12U);
  EXPECT_THAT(response.outputs().token_ids(), ElementsAre(10, 11, 12));
}

TEST(VllmInference, KeepsTheLastTokensOfATruncatedPrompt) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(9, 3);
  request.set_truncate_prompt_tokens(2);
  ::vllm::GenerateResponse response;
  ASSERT_TRUE(Generate(edge, request, &response).ok());
  EXPECT_EQ(response.prompt_info().num_prompt_tokens(), 2U);
  EXPECT_THAT(response.outputs().token_ids(), ElementsAre(17, 18, 17));
}

TEST(VllmInference, ReadsThePrefixCacheUnlessItIsBypassed) {
  const EdgeServer edge;
  ::vllm::GenerateRequest request = IdsRequest(64, 2);
  const auto cached = [&] {
    ::vllm::GenerateResponse response;
    EXPECT_TRUE(Generate(edge, request, &response).ok());
    return response.outputs().finish_info().num_cached_tokens();
  };
  EXPECT_EQ(cached(), 0U);
  EXPECT_EQ(cached(), 48U);  // the page of the last token is computed again
  request.mutable_kv()->set_bypass_prefix_cache(true);
  EXPECT_EQ(cached(), 0U);
  request.mutable_kv()->set_bypass_prefix_cache(false);
  request.mutable_kv()->set_cache_salt("another");
  EXPECT_EQ(cached(), 0U);
}

TEST(VllmInference, AStreamThatIsDroppedFreesItsPages) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  VllmStream stream(edge, IdsRequest(8, 400));
  ASSERT_TRUE(stream.ReadUntilToken());
  EXPECT_GT(edge.model("tiny").engine->stats().pages_used, 0);
  stream.Cancel();
  EXPECT_EQ(stream.Rest().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&edge] { return edge.model("tiny").engine->stats().pages_used == 0; }));
  EXPECT_LT(edge.control().tokens.load(), 300);
}

TEST(VllmInference, ErrorsNameTheFieldOfTheMessage) {
  const EdgeServer edge;
  ::vllm::GenerateResponse response;
  ::vllm::GenerateRequest request = IdsRequest(3, 2);
  request.mutable_sampling()->set_top_p(1.5F);
  grpc::Status status = Generate(edge, request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sampling.top_p is 1.5"));
  request = IdsRequest(3, 2);
  request.set_model("");
  EXPECT_THAT(Generate(edge, request, &response).error_message(), HasSubstr("model is empty")) << "there are several";
  request.set_model("unknown");
  EXPECT_EQ(Generate(edge, request, &response).error_code(), StatusCode::NOT_FOUND);
}

TEST(VllmInference, AMalformedMessageIsRefusedInBothMethods) {
  const EdgeServer edge;
  for (const char* method : {"/vllm.Inference/Generate", "/vllm.Inference/GenerateStream", "/vllm.Control/Abort"}) {
    grpc::ClientContext context;
    SetDeadline(&context);
    grpc::GenericStub stub(edge.channel());
    grpc::CompletionQueue queue;
    const std::string broken = "\x0A\xFFnonsense";
    const grpc::Slice slice(broken);
    const grpc::ByteBuffer message(&slice, 1);
    const auto call = stub.PrepareUnaryCall(&context, method, message, &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_EQ(ReasonOf(status), "MALFORMED_MESSAGE") << method;
  }
}

}  // namespace
}  // namespace dunlin::server
