// SPDX-License-Identifier: Apache-2.0
// Every way a Generate call can fail: cancel, deadlines, slow readers, full queues, numerical errors, a broken device,
// drain and shutdown. Each gives one status and releases all resources.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::Contains;
using testing::Pair;
using namespace std::chrono_literals;

// A call in flight that the test reads by hand.
struct Flight {
  Flight(const EdgeServer& edge, const v1::GenerateRequest& request, std::chrono::milliseconds deadline = 30s)
      : Flight(edge.channel(), request, deadline) {}
  Flight(const std::shared_ptr<grpc::Channel>& channel, const v1::GenerateRequest& request,
         std::chrono::milliseconds deadline) {
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    stub = v1::GenerationService::NewStub(channel);
    reader = stub->Generate(&context, request);
  }
  bool Read() {
    v1::GenerateResponse message;
    if (!reader->Read(&message)) return false;
    Take(message, &reply);
    return true;
  }
  Reply& Rest() {
    ReadAll(reader.get(), &context, &reply);
    return reply;
  }
  grpc::ClientContext context;
  std::unique_ptr<v1::GenerationService::Stub> stub;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  Reply reply;
};

bool Idle(const EdgeServer& edge) {
  return Eventually([&] {
    const engine::EngineStats stats = edge.model("tiny").engine->stats();
    return stats.idle && stats.pages_used == 0;
  });
}

TEST(Endings, ACancelledCallFreesItsPages) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  Flight flight(edge, TextRequest("abc", 500));
  while (flight.reply.outputs[0].token_ids.empty()) ASSERT_TRUE(flight.Read());
  EXPECT_GT(edge.model("tiny").engine->stats().pages_used, 0);
  flight.context.TryCancel();
  EXPECT_EQ(flight.Rest().status.error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Idle(edge));
  const RequestRecord record = edge.observer().WaitFor(1).at(0);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(record.finish_reason, "cancelled");
  EXPECT_LT(edge.control().tokens.load(), 400);
}

TEST(Endings, ADeadlineInFlightIsDeadlineExceeded) {
  EdgeServer edge;
  edge.control().step_us = 5000;
  Flight flight(edge, TextRequest("abc", 500), 150ms);
  const Reply& reply = flight.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(reply.outputs.at(0).num_finishes, 0) << "never a made-up length";
  EXPECT_TRUE(Idle(edge));
  EXPECT_EQ(edge.observer().WaitFor(1).at(0).status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Endings, ADeadlineInTheQueueIsDeadlineExceeded) {
  EdgeServerOptions options;
  options.engine.max_sequences = 1;
  EdgeServer edge(options);
  edge.control().step_us = 2000;
  Flight running(edge, TextRequest("abc", 200));
  ASSERT_TRUE(running.Read());
  Flight queued(edge, TextRequest("def", 10), 100ms);
  const Reply& reply = queued.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(reply.outputs.empty() || reply.outputs.at(0).token_ids.empty());
  EXPECT_TRUE(running.Rest().status.ok());
  for (const RequestRecord& record : edge.observer().WaitFor(2)) {
    if (record.status.ok()) continue;
    EXPECT_EQ(record.status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(record.first_scheduled, 0);
  }
}

// A channel whose flow-control window stays at 64 KiB, so that a client that does not read soon blocks writes.
std::shared_ptr<grpc::Channel> NarrowChannel(const EdgeServer& edge) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(edge.address(), grpc::InsecureChannelCredentials(), arguments);
}

TEST(Endings, ASlowReaderEndsAndFreesItsPages) {
  EdgeServerOptions options;
  options.limits.max_unsent_tokens = 64;
  options.limits.slow_reader_timeout_ms = 500;
  EdgeServer edge(options);
  edge.control().step_us = 1000;  // 64 tokens are 64 ms for our own threads
  v1::GenerateRequest request = TextRequest("abc", 500);
  request.mutable_output()->set_logprobs(20);  // some 300 bytes a token; gRPC takes 128 KiB before writes stall
  request.mutable_sampling()->set_n(3);
  Flight flight(NarrowChannel(edge), request, 30s);
  ASSERT_TRUE(flight.Read());
  EXPECT_TRUE(Eventually([&] { return edge.control().tokens.load() > 100; }));
  EXPECT_TRUE(Idle(edge)) << "pages are freed while the client still does not read";
  const RequestRecord record = edge.observer().WaitFor(1).at(0);
  EXPECT_EQ(record.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(record.finish_reason, "slow_reader");
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; })) << "the call itself is cut";
  const Reply& reply = flight.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).num_finishes, 0);
}

TEST(Endings, ASlowReaderThatCatchesUpSeesTheReason) {
  EdgeServerOptions options;
  options.limits.max_unsent_tokens = 64;
  EdgeServer edge(options);
  edge.control().step_us = 1000;
  v1::GenerateRequest request = TextRequest("abc", 500);
  request.mutable_output()->set_logprobs(20);
  request.mutable_sampling()->set_n(3);
  Flight flight(NarrowChannel(edge), request, 30s);
  ASSERT_EQ(edge.observer().WaitFor(1).size(), 1U);
  const Reply& reply = flight.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reply.reason(), "SLOW_READER");
  const auto& output = reply.outputs.at(0);
  EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
}

TEST(Endings, AFullQueueRefusesWithARetryDelay) {
  EdgeServerOptions options;
  options.engine.max_sequences = 1;
  options.engine.max_queued_requests = 1;
  options.limits.retry_after_ms = 1500;
  EdgeServer edge(options);
  edge.control().step_us = 2000;
  Flight running(edge, TextRequest("abc", 100));
  ASSERT_TRUE(running.Read());
  ASSERT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().running == 1; }));
  Flight queued(edge, TextRequest("def", 1));
  ASSERT_TRUE(queued.Read());
  const Reply refused = edge.Generate(TextRequest("ghi", 1));
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason(), "QUEUE_FULL");
  EXPECT_EQ(refused.Get<google::rpc::RetryInfo>().retry_delay().seconds(), 1);
  EXPECT_EQ(refused.Get<google::rpc::RetryInfo>().retry_delay().nanos(), 500'000'000);
  ASSERT_EQ(refused.Get<google::rpc::QuotaFailure>().violations_size(), 1);
  EXPECT_EQ(refused.Get<google::rpc::QuotaFailure>().violations(0).subject(), "scheduler.max_queued_requests");
  EXPECT_THAT(refused.trailing_metadata, Contains(Pair("grpc-retry-pushback-ms", "1500")));
  EXPECT_TRUE(refused.initial_metadata.empty());
  EXPECT_TRUE(running.Rest().status.ok());
  EXPECT_TRUE(queued.Rest().status.ok());
}

TEST(Endings, AQueueFullOfTokensNamesThatLimit) {
  EdgeServerOptions options;
  options.engine.max_sequences = 1;
  options.engine.max_queued_tokens = 40;
  EdgeServer edge(options);
  edge.control().step_us = 2000;
  Flight running(edge, TextRequest("abc", 100));
  ASSERT_TRUE(running.Read());
  ASSERT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().running == 1; }));
  v1::GenerateRequest request = TextRequest("", 1);
  request.mutable_token_ids()->mutable_ids()->Resize(30, 7);
  Flight queued(edge, request);
  ASSERT_TRUE(queued.Read());
  const Reply refused = edge.Generate(request);
  EXPECT_EQ(refused.reason(), "QUEUE_FULL");
  ASSERT_EQ(refused.Get<google::rpc::QuotaFailure>().violations_size(), 1);
  EXPECT_EQ(refused.Get<google::rpc::QuotaFailure>().violations(0).subject(), "scheduler.max_queued_tokens");
  EXPECT_TRUE(running.Rest().status.ok());
  EXPECT_TRUE(queued.Rest().status.ok());
}

TEST(Endings, MoreOutputsThanTheQueueTakesAreRefusedAsAWhole) {
  EdgeServerOptions options;
  options.engine.max_sequences = 1;
  options.engine.max_queued_requests = 2;
  EdgeServer edge(options);
  edge.control().held = true;
  v1::GenerateRequest request = TextRequest("abc", 3);
  request.mutable_sampling()->set_n(8);
  const Reply reply = edge.Generate(request);
  EXPECT_EQ(reply.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reply.reason(), "QUEUE_FULL");
  EXPECT_TRUE(reply.messages.empty());
  edge.control().held = false;
  EXPECT_TRUE(Idle(edge));
  EXPECT_EQ(edge.observer().WaitFor(1).size(), 1U);
}

TEST(Endings, RequestsAndBytesInFlightAreBounded) {
  EdgeServerOptions options;
  options.limits.max_concurrent_requests = 1;
  options.limits.max_queued_bytes = 1000;
  EdgeServer edge(options);
  const Reply large = edge.Generate(TextRequest(std::string(2000, 'a'), 1));
  EXPECT_EQ(large.reason(), "TOO_MANY_QUEUED_BYTES");
  EXPECT_EQ(large.Get<google::rpc::QuotaFailure>().violations(0).subject(), "limits.max_queued_bytes");
  edge.control().step_us = 1000;
  Flight running(edge, TextRequest("abc", 200));
  ASSERT_TRUE(running.Read());
  const Reply refused = edge.Generate(TextRequest("def", 1));
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason(), "TOO_MANY_REQUESTS");
  EXPECT_EQ(refused.status.error_message(), "1 requests are in flight; limit is 1 (limits.max_concurrent_requests)");
  EXPECT_TRUE(running.Rest().status.ok());
  EXPECT_TRUE(Eventually([&] { return edge.Generate(TextRequest("def", 1)).status.ok(); }));
}

TEST(Endings, TokensAreBatchedUnderOverload) {
  EdgeServerOptions options;
  options.limits.max_concurrent_requests = 1;
  options.limits.busy_message_interval_ms = 10000;
  EdgeServer edge(options);
  edge.control().step_us = 1000;
  edge.control().held = true;
  Flight running(edge, TextRequest("abc", 100));
  ASSERT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 1; }));
  EXPECT_EQ(edge.Generate(TextRequest("def", 1)).reason(), "TOO_MANY_REQUESTS");
  edge.control().held = false;
  const Reply& reply = running.Rest();
  EXPECT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.outputs.at(0).token_ids.size(), 100U);
  EXPECT_EQ(reply.outputs.at(0).text.substr(0, 6), "abcabc");
  // The first token at once, then half of what a reader may be behind, then the rest; a few more where a write ends
  // late.
  EXPECT_LE(reply.messages.size(), 10U);
}

TEST(Endings, ANumericalErrorEndsThatRequestAlone) {
  EdgeServer edge;
  edge.control().step_us = 500;
  Flight neighbour(edge, TextRequest("abc", 200));
  ASSERT_TRUE(neighbour.Read());
  v1::GenerateRequest request = TextRequest("def", 50);
  request.mutable_sampling()->set_seed(NumericalErrorAt(5));
  const Reply reply = edge.Generate(request);
  EXPECT_EQ(reply.status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(reply.reason(), "NUMERICAL");
  EXPECT_LE(reply.outputs.at(0).token_ids.size(), 5U);
  EXPECT_EQ(neighbour.Rest().outputs.at(0).token_ids.size(), 200U);
  EXPECT_TRUE(neighbour.reply.status.ok());
}

TEST(Endings, ABrokenDeviceIsUnavailable) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  Flight flight(edge, TextRequest("abc", 400));
  ASSERT_TRUE(flight.Read());
  edge.control().fail = true;
  const Reply& reply = flight.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(reply.reason(), "DEVICE_FAILED");
  const Reply later = edge.Generate(TextRequest("abc", 4));
  EXPECT_EQ(later.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(later.reason(), "DEVICE_FAILED");
}

TEST(Endings, CallsAreRefusedBeforeServingAndWhileDraining) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  EXPECT_EQ(edge.Generate(TextRequest("abc", 4)).reason(), "LOADING");
  edge.server().SetServing(true);
  edge.control().step_us = 1000;
  Flight flight(edge, TextRequest("abc", 200));
  ASSERT_TRUE(flight.Read());
  edge.server().SetServing(false);  // lame duck: still taken
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 4)).status.ok());
  edge.server().StartDraining();
  const Reply refused = edge.Generate(TextRequest("abc", 4));
  EXPECT_EQ(refused.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason(), "DRAINING");
  EXPECT_EQ(flight.Rest().outputs.at(0).token_ids.size(), 200U) << "what is in flight goes on";
  EXPECT_TRUE(flight.reply.status.ok());
}

TEST(Endings, ShutdownWaitsThenEndsTheRestUnavailable) {
  EdgeServer edge;
  edge.control().step_us = 2000;
  Flight quick(edge, TextRequest("abc", 10));
  Flight endless(edge, TextRequest("abc", 500));
  ASSERT_TRUE(quick.Read());
  ASSERT_TRUE(endless.Read());
  const absl::Time begin = absl::Now();
  std::thread down([&] { edge.server().Shutdown(absl::Now() + absl::Milliseconds(300)); });
  EXPECT_TRUE(quick.Rest().status.ok());
  const Reply& reply = endless.Rest();
  EXPECT_EQ(reply.status.error_code(), StatusCode::UNAVAILABLE) << reply.status.error_message();
  EXPECT_EQ(reply.reason(), "SHUTDOWN");
  down.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_EQ(edge.observer().WaitFor(2).size(), 2U);
}

}  // namespace
}  // namespace dunlin::server
