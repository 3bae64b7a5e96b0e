// SPDX-License-Identifier: Apache-2.0
// A unary answer that nobody reads gives its admission ticket back.
#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

TEST(UnreadAnswers, AreCutOffAndGiveTheirTicketsBack) {
  EdgeServerOptions options;
  options.limits.max_concurrent_requests = 1;
  options.limits.slow_reader_timeout_ms = 300;
  EdgeServer edge(options);
  grpc::ChannelArguments arguments;  // the client's window stays at 64 KiB
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = grpc::CreateCustomChannel(edge.address(), grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::TokenizerService::NewStub(channel);
  v1::TokenizeRequest request;
  request.set_model("tiny");
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i % 10) + " ";
  request.set_text(text);  // an answer of 400 KB and more

  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  // Sent, and the message of its answer not asked for.
  const auto call = stub->PrepareAsyncTokenize(&context, request, &queue);
  call->StartCall();
  int metadata = 0;
  call->ReadInitialMetadata(&metadata);
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 1; }));
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; }));
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 1)).status.ok());

  v1::TokenizeResponse response;
  grpc::Status status;
  call->Finish(&response, &status, &response);
  void* tag = nullptr;
  bool ok = false;
  while (tag != &response && queue.Next(&tag, &ok)) {
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace
}  // namespace dunlin::server
