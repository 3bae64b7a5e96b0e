// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer over the wire: many requests on a stream, errors in it, its end, cancels, readers that stall.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "kserve/grpc_service.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/fronts/kserve/infer_requests.h"

namespace dunlin::server::kserve {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using Stub = inference::GRPCInferenceService::Stub;

inference::ModelInferRequest StreamRequest(const std::string& id, const std::string& text, int max_tokens) {
  inference::ModelInferRequest request = TextRequest(id, text, max_tokens);
  AddFlag("stream", true, &request);
  return request;
}

class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel, bool errors_end_stream = false)
      : stub_(inference::GRPCInferenceService::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (errors_end_stream) context_.AddMetadata("triton_grpc_error", "true");
    stream_ = stub_->ModelStreamInfer(&context_);
  }
  bool Send(const inference::ModelInferRequest& request) { return stream_->Write(request); }
  bool Next(inference::ModelStreamInferResponse* response) { return stream_->Read(response); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status End() {
    stream_->WritesDone();
    inference::ModelStreamInferResponse response;
    while (stream_->Read(&response)) {
    }
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>> stream_;
};

bool IsFinal(const inference::ModelStreamInferResponse& response) {
  return response.infer_response().parameters().at("triton_final_response").bool_param();
}

TEST(ModelStreamInfer, MultiplexesRequests) {
  EdgeServer edge;
  Stream stream(edge.channel());
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(stream.Send(StreamRequest(id, std::string("xyz") + id, 8)));
  std::map<std::string, std::string> texts;
  std::map<std::string, int> finals;
  inference::ModelStreamInferResponse response;
  while (finals.size() < 3 && stream.Next(&response)) {
    ASSERT_EQ(response.error_message(), "");
    const std::string& id = response.infer_response().id();
    EXPECT_EQ(finals.count(id), 0U) << "a response behind the last one";
    for (const std::string& text : TextsOf(response.infer_response(), "text_output")) texts[id] += text;
    if (IsFinal(response)) ++finals[id];
  }
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(texts[id], std::string("xyz") + id + "xyz" + id);
    EXPECT_EQ(finals[id], 1);
  }
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, AnswersARequestWithoutStreamAtOnce) {
  EdgeServer edge;
  Stream stream(edge.channel());
  ASSERT_TRUE(stream.Send(TextRequest("1", "abc", 6)));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream.Next(&response));
  EXPECT_EQ(TextsOf(response.infer_response(), "text_output").at(0), "abcabc");
  EXPECT_TRUE(IsFinal(response));
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, SendsTheLastResponseEmptyIfItTellsNothing) {
  EdgeServer edge;
  Stream stream(edge.channel());
  inference::ModelInferRequest request = StreamRequest("1", "abc", 6);
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  (*request.mutable_parameters())["stop"].set_string_param("ab");  // what the output begins with: no text at all
  ASSERT_TRUE(stream.Send(request));
  inference::ModelStreamInferResponse response;
  do {
    ASSERT_TRUE(stream.Next(&response));  // the first one may come before the stop string is complete
  } while (!IsFinal(response));
  EXPECT_EQ(response.infer_response().outputs_size(), 0);
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, AnErrorEndsItsRequestAlone) {
  EdgeServer edge;
  Stream stream(edge.channel());
  inference::ModelInferRequest wrong = StreamRequest("wrong", "abc", 3);
  wrong.set_model_name("nobody");
  ASSERT_TRUE(stream.Send(wrong));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream.Next(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("nobody"));
  EXPECT_EQ(response.infer_response().id(), "wrong");
  ASSERT_TRUE(stream.Send(TextRequest("right", "abc", 3)));
  ASSERT_TRUE(stream.Next(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "right");
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, AnErrorEndsTheStreamIfTheClientSaysSo) {
  EdgeServer edge;
  edge.control().step_us = 5000;
  Stream stream(edge.channel(), true);
  ASSERT_TRUE(stream.Send(StreamRequest("long", "abc", 400)));
  inference::ModelInferRequest wrong = StreamRequest("wrong", "abc", 3);
  wrong.set_model_name("nobody");
  ASSERT_TRUE(stream.Send(wrong));
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("nobody"));
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; }));
}

TEST(ModelStreamInfer, Embeds) {
  EdgeServer edge;
  Stream stream(edge.channel());
  inference::ModelInferRequest request;
  request.set_model_name("encoder");
  request.set_id("e");
  AddTexts("text_input", {"A dunlin flies."}, &request);
  ASSERT_TRUE(stream.Send(request));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream.Next(&response));
  EXPECT_EQ(NumbersOf<float>(response.infer_response(), "embedding").size(), 36U) << response.error_message();
  EXPECT_TRUE(IsFinal(response));
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, RefusesWhatIsTooMuchInTheStream) {
  EdgeServerOptions options;
  options.limits.max_concurrent_requests = 1;
  EdgeServer edge(options);
  edge.control().held = true;
  Stream stream(edge.channel());
  ASSERT_TRUE(stream.Send(StreamRequest("first", "abc", 3)));
  ASSERT_TRUE(stream.Send(StreamRequest("second", "abc", 3)));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream.Next(&response));
  EXPECT_EQ(response.infer_response().id(), "second");
  EXPECT_THAT(response.error_message(), HasSubstr("max_concurrent_requests"));
  edge.control().held = false;
  EXPECT_TRUE(stream.End().ok());
}

TEST(ModelStreamInfer, ACancelFreesThePagesOfAllRequests) {
  EdgeServer edge;
  edge.control().step_us = 2000;
  Stream stream(edge.channel());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(stream.Send(StreamRequest(std::to_string(i), "abcdef", 400)));
  EXPECT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().running == 4; }));
  EXPECT_GT(edge.model("tiny").engine->stats().pages_used, 0);
  stream.Cancel();
  EXPECT_EQ(stream.End().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().pages_used == 0; }));
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; }));
}

TEST(ModelStreamInfer, AReaderThatStallsIsCutOffAlone) {
  EdgeServerOptions options;
  options.limits.slow_reader_timeout_ms = 300;
  EdgeServer edge(options);
  grpc::ChannelArguments arguments;  // the client's window stays at 64 KiB
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = grpc::CreateCustomChannel(edge.address(), grpc::InsecureChannelCredentials(), arguments);
  Stream stalled(channel);
  inference::ModelInferRequest request = StreamRequest("1", "abc", 200);
  AddFlag("return_logprobs", true, &request);
  (*request.mutable_parameters())["logprobs"].set_int64_param(20);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(stalled.Send(request));
  Stream other(edge.channel());
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests > 0; }));
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; }));
  ASSERT_TRUE(other.Send(TextRequest("2", "abc", 3)));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(other.Next(&response));
  EXPECT_EQ(TextsOf(response.infer_response(), "text_output").at(0), "abc");
  EXPECT_TRUE(other.End().ok());
  EXPECT_EQ(stalled.End().error_code(), StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace dunlin::server::kserve
