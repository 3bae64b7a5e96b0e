// SPDX-License-Identifier: Apache-2.0
// Many streams at once: each ends exactly once, with its own text, whatever its neighbours do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

constexpr int kThreads = 8;
constexpr int kStreamsPerThread = 25;  // one in five of each kind below

struct Kind {
  const char* name;
  bool ok;  // must end well; the others may be overtaken by their own end
};
constexpr Kind kKinds[] = {
    {"plain", true}, {"three outputs", true}, {"stop string", true}, {"cancelled", false}, {"hurried", false}};

std::string Prompt(int stream) {
  return "stream " + std::to_string(stream) + " says so. ";
}

std::string Repeated(const std::string& prompt, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += prompt;
  return text.substr(0, bytes);
}

void RunOne(const EdgeServer& edge, int stream, Reply* reply) {
  const std::string kind = kKinds[stream % 5].name;
  v1::GenerateRequest request = TextRequest(Prompt(stream), 60);
  request.set_request_id("stream-" + std::to_string(stream));
  if (kind == "three outputs") request.mutable_sampling()->set_n(3);
  if (kind == "stop string") request.mutable_stopping()->add_stop("so. stream");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       (kind == "hurried" ? std::chrono::milliseconds(20) : std::chrono::seconds(30)));
  const auto stub = edge.stub();
  const auto reader = stub->Generate(&context, request);
  if (kind == "cancelled") {
    v1::GenerateResponse message;
    if (reader->Read(&message)) Take(message, reply);
    context.TryCancel();
  }
  ReadAll(reader.get(), &context, reply);
}

void ExpectRight(int stream, const Reply& reply) {
  SCOPED_TRACE(stream);
  const Kind& kind = kKinds[stream % 5];
  if (!kind.ok && !reply.status.ok()) return;
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const Reply::Output& first = reply.outputs.at(0);
  EXPECT_EQ(first.text, Repeated(Prompt(stream), first.text.size()));
  EXPECT_EQ(reply.messages.front().request_id(), "stream-" + std::to_string(stream));
  for (const auto& [index, output] : reply.outputs) EXPECT_EQ(output.num_finishes, 1) << index;
  if (std::string(kind.name) == "stop string") {
    EXPECT_EQ(first.text + "so. stream", Prompt(stream) + "stream");
  } else {
    EXPECT_EQ(first.token_ids.size(), 60U);
  }
}

TEST(Concurrency, TwoHundredStreamsEndOnceEach) {
  EdgeServerOptions options;
  options.engine.max_queued_requests = 1024;
  EdgeServer edge(options);
  edge.control().step_us = 300;
  std::vector<Reply> replies(kThreads * kStreamsPerThread);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kStreamsPerThread; ++i) {
        const int stream = t * kStreamsPerThread + i;
        RunOne(edge, stream, &replies[static_cast<size_t>(stream)]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < replies.size(); ++i) ExpectRight(static_cast<int>(i), replies[i]);

  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == 0; }));
  const std::vector<RequestRecord> records = edge.observer().WaitFor(replies.size());
  EXPECT_EQ(records.size(), replies.size());
  std::map<std::string, int> ends;
  for (const RequestRecord& record : records) ++ends[record.request_id];
  for (const auto& [id, count] : ends) {
    if (!id.empty()) {
      EXPECT_EQ(count, 1) << id;  // "" ended before its message was read
    }
  }
  EXPECT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().pages_used == 0; }));
  EXPECT_EQ(edge.server().admission_stats().queued_bytes, 0);
}

TEST(Concurrency, TwoHundredStreamsInFlightTogether) {
  EdgeServerOptions options;
  options.engine.max_queued_requests = 1024;
  EdgeServer edge(options);
  edge.control().held = true;
  constexpr size_t kStreams = 200;
  struct Open {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
    Reply reply;
  };
  const std::shared_ptr<grpc::Channel> channels[] = {edge.NewChannel(), edge.NewChannel(), edge.NewChannel()};
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs;
  for (const auto& channel : channels) stubs.push_back(v1::GenerationService::NewStub(channel));
  std::vector<Open> open(kStreams);
  for (size_t i = 0; i < kStreams; ++i) {
    open[i].context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    open[i].reader = stubs[i % 3]->Generate(&open[i].context, TextRequest(Prompt(static_cast<int>(i)), 60));
  }
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().requests == kStreams; }));
  edge.control().held = false;
  for (size_t i = 0; i < kStreams; ++i) {
    ReadAll(open[i].reader.get(), &open[i].context, &open[i].reply);
    EXPECT_TRUE(open[i].reply.status.ok()) << i << ": " << open[i].reply.status.error_message();
    const Reply::Output& output = open[i].reply.outputs[0];
    EXPECT_EQ(output.text, Repeated(Prompt(static_cast<int>(i)), output.text.size()));
    EXPECT_EQ(output.num_finishes, 1);
  }
  EXPECT_EQ(edge.observer().WaitFor(kStreams).size(), kStreams);
}

}  // namespace
}  // namespace dunlin::server
