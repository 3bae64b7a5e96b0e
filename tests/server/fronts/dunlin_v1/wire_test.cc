// SPDX-License-Identifier: Apache-2.0
// Pins how gRPC and protobuf handle bad input: malformed messages, invalid UTF-8, sizes, compression, metadata, unknown
// methods. The server keeps running after each.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;

constexpr char kGenerate[] = "/dunlin.v1.GenerationService/Generate";
constexpr char kTokenize[] = "/dunlin.v1.TokenizerService/Tokenize";
constexpr char kGetModel[] = "/dunlin.v1.ModelService/GetModel";

// Sends raw bytes to a method and waits for the status.
grpc::Status Send(const EdgeServer& edge, const std::string& method, const std::string& bytes,
                  const std::function<void(grpc::ClientContext*)>& setup = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  if (setup) setup(&context);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(edge.channel());
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

TEST(Wire, MalformedMessagesAndBadUtf8AreInvalidArgument) {
  EdgeServer edge;
  const std::string cases[] = {
      std::string("\x12\x03\xff\xfe\xfd", 5),  // text = three bytes that are not UTF-8
      std::string("\x12\x02\xc0\x80", 4),      // overlong NUL
      std::string("\x12\x03\xed\xa0\x80", 5),  // a surrogate
      std::string("\x12\x7f"
                  "ab",
                  4),                                                   // a length that lies
      std::string("\x12\xff\xff\xff\xff\x0f", 6),                       // a length of 4 GiB
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11),  // a tag without end
      std::string(20000, '\x0b'),                                       // 20,000 nested groups
  };
  for (const std::string& bytes : cases) {
    const grpc::Status status = Send(edge, kGenerate, bytes);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_EQ(status.error_message(),
              "the message is not a dunlin.v1.GenerateRequest: it is malformed, or one of its strings is not UTF-8");
  }
  EXPECT_EQ(Send(edge, kTokenize, std::string("\x12\x01\xff", 3)).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(edge, kGetModel, std::string("\x0a\x01\xff", 3)).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(edge, kGenerate, "").error_message(), "model is empty; limit is the name of a served model");
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 3)).status.ok());
}

TEST(Wire, UnknownFieldsAreIgnored) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("abc", 1);
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(999, 7);
  EXPECT_TRUE(edge.Generate(request).status.ok());
}

// gRPC 1.51's callback API returns UNIMPLEMENTED for messages that it cannot parse; only Health leaves parsing to it.
TEST(Wire, HealthLeavesBadMessagesToGrpc) {
  EdgeServer edge;
  EXPECT_EQ(Send(edge, "/grpc.health.v1.Health/Check", std::string("\x0a\x01\xff", 3)).error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST(Wire, SizesAreBounded) {
  EdgeServerOptions options;
  options.limits.max_message_bytes = 1 << 20;
  EdgeServer edge(options);
  EXPECT_EQ(Send(edge, kGenerate, std::string((1 << 20) + 1, 'x')).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 3)).status.ok());
}

// gRPC 1.51 closes the whole connection after metadata over its limit, so other clients need separate connections.
TEST(Wire, HeavyMetadataCostsItsOwnConnectionOnly) {
  EdgeServer edge;
  const auto heavy = [](grpc::ClientContext* context) { context->AddMetadata("x-heavy", std::string(16000, 'h')); };
  const std::shared_ptr<grpc::Channel> other = edge.NewChannel();
  edge.control().step_us = 1000;
  grpc::ClientContext context;
  const auto stub = v1::GenerationService::NewStub(other);
  const auto neighbour = stub->Generate(&context, TextRequest("abc", 100));
  EXPECT_EQ(Send(edge, kGenerate, "", heavy).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  Reply reply;
  ReadAll(neighbour.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).token_ids.size(), 100U);
}

TEST(Wire, CompressedMessagesAreRefused) {
  EdgeServer edge;
  const auto gzip = [](grpc::ClientContext* context) { context->set_compression_algorithm(GRPC_COMPRESS_GZIP); };
  const std::string bomb = TextRequest(std::string(1 << 20, 'a'), 1).SerializeAsString();
  EXPECT_EQ(Send(edge, kGenerate, bomb, gzip).error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 3)).status.ok());
}

TEST(Wire, OnlyRegisteredMethodsExist) {
  EdgeServer edge;
  for (const char* method : {"/dunlin.v1.GenerationService/generate", "/dunlin.v1.GenerationService/Generate/",
                             "//dunlin.v1.GenerationService/Generate", "/dunlin.v1.GenerationService%2fGenerate",
                             "/dunlin.v1.NoService/Generate"}) {
    EXPECT_EQ(Send(edge, method, "").error_code(), StatusCode::UNIMPLEMENTED) << method;
  }
}

}  // namespace
}  // namespace dunlin::server
