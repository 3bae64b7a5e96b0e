// SPDX-License-Identifier: Apache-2.0
// ModelInfer over the wire: generations and embeddings, what comes back, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "kserve/grpc_service.grpc.pb.h"
#include "server/fronts/kserve/infer_responses.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/fronts/kserve/infer_requests.h"

namespace dunlin::server::kserve {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

struct Answer {
  inference::ModelInferResponse response;
  grpc::Status status;
};

Answer Infer(const EdgeServer& edge, const inference::ModelInferRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  Answer answer;
  answer.status =
      inference::GRPCInferenceService::NewStub(edge.channel())->ModelInfer(&context, request, &answer.response);
  return answer;
}

TEST(ModelInfer, AnswersWithOneResponse) {
  EdgeServer edge;
  inference::ModelInferRequest request = TextRequest("0", "abc", 3);
  AddFlag("return_finish_reason", true, &request);
  AddFlag("return_num_input_tokens", true, &request);
  AddFlag("return_num_output_tokens", true, &request);
  AddFlag("return_logprobs", true, &request);
  AddFlag("return_cumulative_logprob", true, &request);
  const Answer answer = Infer(edge, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const inference::ModelInferResponse& response = answer.response;
  EXPECT_EQ(response.model_name(), "tiny");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "0");
  EXPECT_THAT(TextsOf(response, "text_output"), ElementsAre("abc"));  // the scripted runtime repeats the prompt
  EXPECT_THAT(TextsOf(response, "finish_reason"), ElementsAre("length"));
  EXPECT_THAT(NumbersOf<uint32_t>(response, "num_output_tokens"), ElementsAre(3U));
  EXPECT_THAT(NumbersOf<uint32_t>(response, "num_input_tokens"), ElementsAre(testing::Gt(0U)));
  EXPECT_LT(NumbersOf<float>(response, "cumulative_logprob").at(0), 0.0F);
  EXPECT_THAT(TextsOf(response, "logprobs").at(0), HasSubstr(R"("decoded_token":"a")"));
  EXPECT_EQ(response.parameters().at("precision").string_param(), "fp32");
  EXPECT_EQ(response.parameters().count("triton_final_response"), 0U);
}

TEST(InferResponses, TellWhatWasGuessedOfAllOutputs) {
  for (const bool stream : {false, true}) {
    InferResponses responses;
    *responses.form() = {.model = "tiny", .id = "1", .outputs = kTextOutput, .num_outputs = 2, .stream = stream};
    std::vector<inference::ModelInferResponse> made;
    const auto take = [&made](inference::ModelInferResponse* response, bool) { made.push_back(*response); };
    for (const int index : {0, 1}) {
      OutputChunk chunk;
      chunk.index = index;
      chunk.text = "a";
      chunk.token_ids = {1};
      responses.OnChunk(chunk, take);
      chunk.finish.emplace();
      chunk.finish->usage = {
          .prompt_tokens = 3, .cached_tokens = 0, .completion_tokens = 2, .drafted_tokens = 5, .accepted_tokens = 2};
      responses.OnChunk(chunk, take);
    }
    responses.OnEnd(take);
    ASSERT_EQ(made.size(), stream ? 4U : 1U);
    EXPECT_EQ(made.back().parameters().at("drafted_tokens").string_param(), stream ? "5" : "10");
    EXPECT_EQ(made.back().parameters().at("accepted_tokens").string_param(), stream ? "2" : "4");
    EXPECT_EQ(made.front().parameters().count("drafted_tokens"), stream ? 0U : 1U);
  }
}

TEST(InferResponses, TellWhichBoundEndedAnOutput) {
  InferResponses responses;
  *responses.form() = {.model = "tiny", .id = "1", .outputs = kTextOutput, .num_outputs = 2};
  std::vector<inference::ModelInferResponse> made;
  const auto take = [&made](inference::ModelInferResponse* response, bool) { made.push_back(*response); };
  for (const int index : {0, 1}) {
    OutputChunk chunk;
    chunk.index = index;
    chunk.finish.emplace();
    chunk.finish->reason = engine::FinishReason::kConstraint;
    if (index == 1) chunk.finish->constraint_error = "limit is 250 ms";
    responses.OnChunk(chunk, take);
  }
  responses.OnEnd(take);
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].parameters().at("constraint_error").string_param(), "limit is 250 ms");
}

TEST(ModelInfer, BeginsWithThePromptUnlessThatIsExcluded) {
  EdgeServer edge;
  inference::ModelInferRequest request;
  request.set_model_name("tiny");
  AddTexts("text_input", {"abc"}, &request);
  (*request.mutable_parameters())["max_tokens"].set_int64_param(3);
  EXPECT_THAT(TextsOf(Infer(edge, request).response, "text_output"), ElementsAre("abcabc"));
}

TEST(ModelInfer, GivesEverySequenceAnElement) {
  EdgeServer edge;
  inference::ModelInferRequest request = TextRequest("", "abc", 2);
  (*request.mutable_parameters())["n"].set_int64_param(2);
  (*request.mutable_parameters())["seed"].set_int64_param(1);
  request.add_outputs()->set_name("text_output");
  request.add_outputs()->set_name("sequence_index");
  const Answer answer = Infer(edge, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_THAT(TextsOf(answer.response, "text_output"), ElementsAre("ab", "bc"));
  EXPECT_THAT(NumbersOf<int32_t>(answer.response, "sequence_index"), ElementsAre(0, 1));
}

TEST(ModelInfer, EmbedsWithTheModelsThatDo) {
  EdgeServer edge;
  inference::ModelInferRequest request;
  request.set_model_name("encoder");
  request.set_id("e");
  AddTexts("text_input", {"A dunlin flies.", "Many dunlins."}, &request);
  (*request.mutable_parameters())["dimensions"].set_int64_param(7);
  const Answer answer = Infer(edge, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.response.outputs_size(), 1);
  EXPECT_EQ(answer.response.outputs(0).name(), "embedding");
  EXPECT_EQ(answer.response.outputs(0).datatype(), "FP32");
  EXPECT_THAT(answer.response.outputs(0).shape(), ElementsAre(2, 7));
  EXPECT_EQ(answer.response.id(), "e");
  const std::vector<float> vectors = NumbersOf<float>(answer.response, "embedding");
  ASSERT_EQ(vectors.size(), 14U);
  double squares = 0.0;
  for (size_t i = 0; i < 7; ++i) squares += double{vectors[i]} * double{vectors[i]};
  EXPECT_NEAR(squares, 1.0, 1e-5);
  AddTexts("stream", {"true"}, &request);
  EXPECT_THAT(Infer(edge, request).status.error_message(), HasSubstr("stream is not a field of this request"));
}

TEST(ModelInfer, NamesWhatIsWrong) {
  EdgeServer edge;
  inference::ModelInferRequest request = TextRequest("", "abc", 3);
  request.set_model_name("nobody");
  EXPECT_EQ(Infer(edge, request).status.error_code(), StatusCode::NOT_FOUND);
  request.set_model_name("tiny");
  request.set_model_version("2");
  EXPECT_EQ(Infer(edge, request).status.error_code(), StatusCode::NOT_FOUND);
  request.set_model_version("1");
  (*request.mutable_parameters())["top_p"].set_double_param(2.0);
  const Answer answer = Infer(edge, request);
  EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("top_p is 2; limit is (0, 1]"));
  inference::ModelInferRequest empty;
  empty.set_model_name("tiny");
  EXPECT_THAT(Infer(edge, empty).status.error_message(), HasSubstr("text_input"));
}

TEST(ModelInfer, CountsInTheStatistics) {
  EdgeServer edge;
  ASSERT_TRUE(Infer(edge, TextRequest("", "abc", 3)).status.ok());
  inference::ModelInferRequest wrong = TextRequest("", "abc", 3);
  (*wrong.mutable_parameters())["top_p"].set_double_param(2.0);
  ASSERT_FALSE(Infer(edge, wrong).status.ok());
  edge.observer().WaitFor(2);
  const auto statistics = [&edge] {
    inference::ModelStatisticsRequest request;
    request.set_name("tiny");
    inference::ModelStatisticsResponse response;
    grpc::ClientContext context;
    inference::GRPCInferenceService::NewStub(edge.channel())->ModelStatistics(&context, request, &response);
    return response;
  };
  // The third step is counted after its token is out, and the calls after the test's observer was told.
  EXPECT_TRUE(Eventually([&] {
    const inference::ModelStatistics model = statistics().model_stats(0);
    const inference::InferStatistics& calls = model.inference_stats();
    return calls.fail().count() == 1 && calls.success().count() == 1 && model.execution_count() >= 3;
  }));
  const inference::ModelStatisticsResponse response = statistics();
  ASSERT_EQ(response.model_stats_size(), 1);
  const inference::ModelStatistics& model = response.model_stats(0);
  EXPECT_EQ(model.inference_count(), 1U);
  EXPECT_GE(model.execution_count(), 3U);
  EXPECT_GT(model.last_inference(), 0U);
  EXPECT_EQ(model.inference_stats().success().count(), 1U);
  EXPECT_EQ(model.inference_stats().queue().count(), 1U);
  EXPECT_GT(model.inference_stats().compute_infer().ns(), 0U);
  EXPECT_GE(model.inference_stats().success().ns(), model.inference_stats().compute_infer().ns());
}

}  // namespace
}  // namespace dunlin::server::kserve
