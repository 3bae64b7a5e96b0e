// SPDX-License-Identifier: Apache-2.0
// The life of a call with a translator that makes none, one or several messages of a chunk, streamed and unary, and
// how calls are found by their ids. What a whole API shows is in tests/server/fronts/dunlin_v1.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dunlin/v1/embedding.grpc.pb.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "server/grpc_calls/generation_stream.h"
#include "server/grpc_calls/generation_unary.h"
#include "server/transport/grpc/grpc_server.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;

constexpr char kMethod[] = "/dunlin.v1.GenerationService/Generate";

// The request's priority says how many messages a token makes; its text is the prompt. A message's text is a token's
// text, of several "TEXT 0", "TEXT 1". At the end "end", unless the request asks to echo.
class PerToken final : public CallTranslator {
 public:
  explicit PerToken(bool unary) : unary_(unary) {}
  absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) override {
    v1::GenerateRequest wire;
    if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
    request->model = wire.model();
    request->request_id = wire.request_id();
    request->prompt = wire.text();
    request->stopping.max_tokens = wire.stopping().max_tokens();
    per_token_ = wire.priority();
    ends_ = !wire.output().echo();
    return absl::OkStatus();
  }
  void OnChunk(const OutputChunk& chunk, WireMessages* out) override {
    text_ += chunk.text;
    if (unary_) return;
    for (const char letter : chunk.text) {
      for (int i = 0; i < per_token_; ++i) Add(std::string(1, letter) + std::to_string(i), out);
    }
  }
  void OnEnd(WireMessages* out) override {
    if (ends_) Add(unary_ ? text_ : "end", out);
  }

 private:
  static void Add(const std::string& text, WireMessages* out) {
    v1::GenerateResponse response;
    response.set_text_delta(text);
    out->Add(response);
  }
  const bool unary_;
  int per_token_ = 1;
  bool ends_ = true;
  std::string text_;
};

// Generate streams; Embed, whose messages are Generate's, is unary.
class StreamService final
    : public v1::GenerationService::WithRawCallbackMethod_Generate<v1::GenerationService::Service> {
 public:
  StreamService(const CallAdmission* admission, RunningCalls* running)
      : method_{admission, kMethod, [] { return std::make_unique<PerToken>(false); }, running} {}

 private:
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return GenerationStream::Start(method_, context, *request);
  }
  const GenerationMethod method_;
};

class UnaryService final : public v1::EmbeddingService::WithRawCallbackMethod_Embed<v1::EmbeddingService::Service> {
 public:
  explicit UnaryService(const CallAdmission* admission)
      : method_{admission, kMethod, [] { return std::make_unique<PerToken>(true); }, nullptr} {}

 private:
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return GenerationUnary::Start(method_, context, *request, response);
  }
  const GenerationMethod method_;
};

class GrpcCallsTest : public testing::Test {
 protected:
  GrpcCallsTest()
      : models_(engine::EngineOptions()),
        core_(limits_, models_.repository(), nullptr, {}),
        admission_(&core_),
        stream_(&admission_, &running_),
        unary_(&admission_) {
    core_.Open();
    GrpcServerOptions options;
    options.limits = limits_;
    options.repository = &models_.repository();
    const std::vector<GrpcService> services = {{&stream_, v1::GenerationService::service_full_name()},
                                               {&unary_, v1::EmbeddingService::service_full_name()}};
    const absl::StatusOr<int> port = server_.Start("127.0.0.1:0", services, options);
    EXPECT_TRUE(port.ok()) << port.status();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(*port), grpc::InsecureChannelCredentials());
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  ~GrpcCallsTest() override {
    core_.StartDraining(AdmissionRefusal::kDraining);
    EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(10)));
    models_.repository().StopEngines();
    server_.Shutdown();
  }

  static v1::GenerateRequest Request(const std::string& text, int max_tokens, int per_token) {
    v1::GenerateRequest request;
    request.set_model("tiny");
    request.set_text(text);
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.set_priority(per_token);
    return request;
  }

  std::vector<std::string> Stream(const v1::GenerateRequest& request) {
    const auto stub = v1::GenerationService::NewStub(channel_);
    const auto reader = stub->Generate(&context_, request);
    std::vector<std::string> texts;
    v1::GenerateResponse message;
    while (reader->Read(&message)) texts.push_back(message.text_delta());
    status_ = reader->Finish();
    return texts;
  }

  const Limits limits_;
  TestModels models_;
  ServingCore core_;
  const CallAdmission admission_;
  RunningCalls running_;
  StreamService stream_;
  UnaryService unary_;
  GrpcServer server_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::Status status_;
};

TEST_F(GrpcCallsTest, AChunkMayMakeSeveralMessages) {
  EXPECT_THAT(Stream(Request("abc", 2, 3)), ElementsAre("a0", "a1", "a2", "b0", "b1", "b2", "end"));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_EQ(context_.GetServerInitialMetadata().count("x-request-id"), 1U);
}

TEST_F(GrpcCallsTest, ChunksMayMakeNoMessage) {
  EXPECT_THAT(Stream(Request("abc", 100, 0)), ElementsAre("end"));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
}

TEST_F(GrpcCallsTest, AStreamMayHaveNoMessageAtAll) {
  v1::GenerateRequest request = Request("abc", 20, 0);
  request.mutable_output()->set_echo(true);
  EXPECT_THAT(Stream(request), ElementsAre());
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_EQ(context_.GetServerInitialMetadata().count("x-request-id"), 1U);
}

TEST_F(GrpcCallsTest, MetadataGoesOutBeforeTheFirstMessage) {
  models_.control().step_us = 2000;
  const auto stub = v1::GenerationService::NewStub(channel_);
  const auto reader = stub->Generate(&context_, Request("abc", 500, 0));
  reader->WaitForInitialMetadata();
  EXPECT_FALSE(models_.model("tiny").engine->stats().idle) << "the output goes on";
  context_.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
}

TEST_F(GrpcCallsTest, AnErrorIsTheStatusAlone) {
  EXPECT_THAT(Stream(Request("abc", -1, 1)), ElementsAre());
  EXPECT_EQ(status_.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(context_.GetServerInitialMetadata().count("x-request-id"), 0U);
  EXPECT_EQ(context_.GetServerTrailingMetadata().count("x-request-id"), 1U);
}

TEST_F(GrpcCallsTest, AUnaryCallHasOneMessage) {
  grpc::internal::RpcMethod method("/dunlin.v1.EmbeddingService/Embed", grpc::internal::RpcMethod::NORMAL_RPC);
  v1::GenerateResponse response;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<v1::GenerateRequest, v1::GenerateResponse>(
      channel_.get(), method, &context_, Request("abc", 7, 1), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.text_delta(), "abcabca");
}

TEST_F(GrpcCallsTest, AUnaryCallFailsWithItsStatus) {
  grpc::internal::RpcMethod method("/dunlin.v1.EmbeddingService/Embed", grpc::internal::RpcMethod::NORMAL_RPC);
  v1::GenerateResponse response;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<v1::GenerateRequest, v1::GenerateResponse>(
      channel_.get(), method, &context_, Request("abc", -1, 1), &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcCallsTest, RunningCallsAreCancelledByTheirIdAndCaller) {
  models_.control().step_us = 1000;
  v1::GenerateRequest request = Request("abc", 500, 1);
  request.set_request_id("mine");
  const auto stub = v1::GenerationService::NewStub(channel_);
  const auto reader = stub->Generate(&context_, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  Principal other;
  other.name = "other";
  Principal elsewhere;  // has no name either
  elsewhere.address = TenantOfAddress("192.0.2.1");
  Principal self;
  self.address = TenantOfAddress("127.0.0.1");
  for (const Principal& stranger : {other, elsewhere}) {
    EXPECT_EQ(running_.Cancel("mine", stranger), 0U);
    EXPECT_EQ(running_.CancelAll(stranger), 0U);
  }
  EXPECT_EQ(running_.Cancel("yours", self), 0U);
  EXPECT_EQ(running_.Cancel("mine", self), 1U);
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return running_.Cancel("mine", self) == 0; })) << "it is forgotten";
}

}  // namespace
}  // namespace dunlin::server
