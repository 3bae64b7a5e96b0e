// SPDX-License-Identifier: Apache-2.0
// Each part of a server hangs in turn, by a fake clock: Health and admission say so, and go back when it goes on.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/http_server.h"
#include "server/transport/http/probe_routes.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/models/fake_clock.h"

namespace dunlin::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckResponse;
using State = Watchdog::HealthReport::State;
using ::testing::HasSubstr;

constexpr engine::TimeNs kMs = 1'000'000;
constexpr engine::TimeNs kStallLimit = 10'000 * kMs;

// Polls of the watchdog, each of which counts as the longest time that a poll may.
void Pass(Watchdog* watchdog, int polls) {
  for (int i = 0; i < polls; ++i) {
    FakeClock::Advance(1000 * kMs);
    watchdog->Poll();
  }
}

HealthCheckResponse::ServingStatus HealthOf(const EdgeServer& edge, const std::string& name) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(name);
  HealthCheckResponse response;
  EXPECT_TRUE(Health::NewStub(edge.channel())->Check(&context, request, &response).ok()) << name;
  return response.status();
}

void ExpectHealth(const EdgeServer& edge, HealthCheckResponse::ServingStatus expected) {
  for (const char* name : {"", "dunlin.v1.GenerationService", "dunlin.v1.EmbeddingService", "dunlin.v1.ModelService",
                           "dunlin.v1.TokenizerService", "grpc.health.v1.Health", "model/tiny"}) {
    EXPECT_EQ(HealthOf(edge, name), expected) << name;
  }
}

// Keeps a thread of the text pool with each call that ended OK until it is opened.
class BlockingObserver final : public RequestObserver {
 public:
  void OnTokenInterval(const std::string&, const engine::ExecutionProfile&, engine::TimeNs) override {}
  void OnFinished(const RequestRecord& record) override {
    if (!record.status.ok()) return;  // refusals are reported on gRPC's threads
    ++num_held;
    open.WaitForNotification();
    --num_held;
  }
  absl::Notification open;
  std::atomic<int> num_held{0};
};

TEST(EdgeStall, AnEngineThatStandsStillTurnsHealthAndAdmission) {
  EdgeServer edge;
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  edge.repository().Subscribe(&watchdog);
  edge.control().held = true;
  std::thread client([&] { EXPECT_TRUE(edge.Generate(TextRequest("abc", 4)).status.ok()) << "goes on afterwards"; });
  ASSERT_TRUE(Eventually([&] { return !edge.model("tiny").engine->stats().idle; }));
  Pass(&watchdog, 9);
  edge.server().ApplyHealth(watchdog.report());
  ExpectHealth(edge, HealthCheckResponse::SERVING);

  Pass(&watchdog, 4);
  edge.server().ApplyHealth(watchdog.report());
  ExpectHealth(edge, HealthCheckResponse::NOT_SERVING);
  const Reply refused = edge.Generate(TextRequest("abc", 4));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason(), "STALLED");
  EXPECT_THAT(refused.status.error_message(), HasSubstr("an engine makes no progress"));

  edge.control().held = false;
  client.join();
  Pass(&watchdog, 1);
  edge.server().ApplyHealth(watchdog.report());
  ExpectHealth(edge, HealthCheckResponse::SERVING);
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 4)).status.ok());
  edge.repository().Unsubscribe(&watchdog);
}

TEST(EdgeStall, ADeviceFailureIsTheReasonOfEveryRefusalAfterIt) {
  EdgeServer edge;
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  edge.repository().Subscribe(&watchdog);
  edge.control().fail = true;
  EXPECT_EQ(edge.Generate(TextRequest("abc", 4)).reason(), "DEVICE_FAILED");
  Pass(&watchdog, 1);
  edge.server().ApplyHealth(watchdog.report());
  ExpectHealth(edge, HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(edge.Generate(TextRequest("abc", 4)).reason(), "DEVICE_FAILED");
  edge.server().StartDraining(AdmissionRefusal::kDeviceFailed);
  EXPECT_EQ(edge.Generate(TextRequest("abc", 4)).reason(), "DEVICE_FAILED");
  edge.repository().Unsubscribe(&watchdog);
}

// Of a watchdog whose clock passes faster than any thread's turns each part that is left stalls.
TEST(EdgeStall, EveryThreadThatServesIsWatched) {
  TestModels models{engine::EngineOptions()};
  BlockingObserver observer;
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  Edge edge;
  ASSERT_TRUE(edge.Start("127.0.0.1:0", Limits(), &models.repository(), &observer, EdgeOptions()).ok());
  edge.WatchWith(&watchdog);
  for (const char* part : {"text pool", "delivery", "gRPC", "gRPC connections"}) {
    EXPECT_TRUE(Eventually([&] {
      Pass(&watchdog, 13);
      return watchdog.unhealthy_reason().find(absl::StrCat(part, ": no progress")) == 0;
    })) << part;
    watchdog.Unwatch(part);
  }
  Pass(&watchdog, 13);
  EXPECT_EQ(watchdog.unhealthy_reason(), "") << "nothing else is watched without an HTTP port";
}

TEST(EdgeStall, ATextPoolThatHangsIsFoundByItsCanary) {
  TestModels models{engine::EngineOptions()};
  BlockingObserver observer;
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  Edge edge;
  EdgeOptions options;
  options.serving.text_threads = 1;
  const absl::StatusOr<int> port = edge.Start("127.0.0.1:0", Limits(), &models.repository(), &observer, options);
  ASSERT_TRUE(port.ok()) << port.status();
  edge.SetServing(true);
  edge.WatchWith(&watchdog);
  // Idle: each look's canary comes through before the next.
  const auto look = [&] {
    const bool alive = Eventually([&] {
      Pass(&watchdog, 1);
      return watchdog.report().state == State::kHealthy;
    });
    EXPECT_TRUE(alive);
  };
  for (int i = 0; i < 3; ++i) look();

  const auto stub = v1::GenerationService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(*port), grpc::InsecureChannelCredentials()));
  // The end of one call may be held on the thread that only delivers; those of two leave no thread.
  std::array<grpc::ClientContext, 2> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (grpc::ClientContext& context : contexts) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    readers.push_back(stub->Generate(&context, TextRequest("abc", 4)));
  }
  ASSERT_TRUE(Eventually([&] { return observer.num_held >= 1; }));
  // The thread that only delivers may count as stalled first: the clock passes faster than its turns.
  EXPECT_TRUE(Eventually([&] {
    Pass(&watchdog, 1);
    return watchdog.unhealthy_reason().find("text pool: no progress for") != std::string::npos;
  }));
  EXPECT_EQ(watchdog.report().part, Watchdog::Part::kTextPool);
  edge.ApplyHealth(watchdog.report());
  grpc::ClientContext refused_context;
  v1::GenerateResponse message;
  const auto refused = stub->Generate(&refused_context, TextRequest("abc", 4));
  EXPECT_FALSE(refused->Read(&message));
  EXPECT_THAT(refused->Finish().error_message(), HasSubstr("the text threads make no progress"));

  observer.open.Notify();
  look();
  for (size_t i = 0; i < readers.size(); ++i) {
    Reply reply;
    ReadAll(readers[i].get(), &contexts[i], &reply);
    EXPECT_TRUE(reply.status.ok());
  }
  edge.Shutdown(absl::Now() + absl::Seconds(5));
}

// Keeps each thread of gRPC's that serves a call until it is opened.
class HoldingService final : public v1::TokenizerService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* /*request*/,
                                     v1::TokenizeResponse* /*response*/) override {
    open.WaitForNotification();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  absl::Notification open;
};

// Without a connection, too; a Unix socket is gRPC's own.
TEST(EdgeStall, TheThreadThatAcceptsGrpcConnectionsIsCounted) {
  ModelRepository repository;
  HoldingService service;
  GrpcServerOptions options;
  options.repository = &repository;
  const std::string socket = "unix:/tmp/dunlin_edge_stall_" + std::to_string(getpid());
  for (const std::string& address : {std::string("127.0.0.1:0"), socket}) {
    GrpcServer server;
    ASSERT_TRUE(server.Start(address, {{&service, "dunlin.v1.TokenizerService"}}, options).ok());
    const uint64_t before = server.accept_turns();
    EXPECT_TRUE(Eventually([&] { return server.accept_turns() >= before + 2; })) << address;
  }
}

TEST(EdgeStall, GrpcThreadsThatHangAreFound) {
  constexpr int kMaxGrpcThreads = 16;
  ModelRepository repository;
  HoldingService service;
  GrpcServer server;
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  GrpcServerOptions options;
  options.repository = &repository;
  const absl::StatusOr<int> port = server.Start("127.0.0.1:0", {{&service, "dunlin.v1.TokenizerService"}}, options);
  ASSERT_TRUE(port.ok()) << port.status();
  watchdog.Watch("gRPC", Watchdog::Part::kTransport, [&] { return Watchdog::Progress{server.ticks(), false}; });
  ASSERT_TRUE(Eventually([&] { return server.ticks() >= 2; }));
  const auto stub = v1::TokenizerService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(*port), grpc::InsecureChannelCredentials()));
  std::vector<std::thread> clients;
  for (int i = 0; i < kMaxGrpcThreads; ++i) {
    clients.emplace_back([&stub] {
      grpc::ClientContext context;
      v1::TokenizeResponse response;
      EXPECT_TRUE(stub->Tokenize(&context, v1::TokenizeRequest(), &response).ok());
    });
  }
  ASSERT_TRUE(Eventually([&] {
    const uint64_t before = server.ticks();
    absl::SleepFor(absl::Seconds(1));
    return server.ticks() == before;
  }));
  Pass(&watchdog, 13);
  EXPECT_EQ(watchdog.report().state, State::kStalled);
  EXPECT_THAT(watchdog.unhealthy_reason(), HasSubstr("gRPC: no progress for"));
  service.open.Notify();
  for (std::thread& client : clients) client.join();
  const uint64_t ticks = server.ticks();
  ASSERT_TRUE(Eventually([&] { return server.ticks() > ticks; }));
  Pass(&watchdog, 1);
  EXPECT_EQ(watchdog.report().state, State::kHealthy);
}

// A blocking GET of /metrics; whether it was answered.
bool GetMetrics(const std::string& address) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket socket(io);
  boost::system::error_code error;
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  socket.connect({boost::asio::ip::make_address("127.0.0.1"), port}, error);
  if (error) return false;
  boost::asio::write(socket, boost::asio::buffer(std::string("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")),
                     error);
  char first[12];
  boost::asio::read(socket, boost::asio::buffer(first), error);
  return !error && std::string(first, sizeof(first)) == "HTTP/1.1 200";
}

TEST(EdgeStall, AnHttpThreadThatHangsIsFound) {
  Watchdog watchdog(&FakeClock::Now, kStallLimit);
  absl::Notification entered;
  absl::Notification open;
  const auto hang = [&] {
    entered.Notify();
    open.WaitForNotification();
    return std::string("metrics\n");
  };
  const auto healthy = [] { return std::string(); };
  HttpServerOptions options;
  options.connections = {4, 4};
  options.routes = ProbeRoutes({hang, healthy, healthy});
  auto http = HttpServer::Start("127.0.0.1:0", options);
  ASSERT_TRUE(http.ok()) << http.status();
  watchdog.Watch("HTTP", Watchdog::Part::kTransport, [&] { return Watchdog::Progress{(*http)->Ping(), false}; });
  EXPECT_TRUE(Eventually([&] { return (*http)->Ping() >= 3; })) << "an idle thread answers";
  std::thread client([&] { EXPECT_TRUE(GetMetrics((*http)->bound_address())); });
  entered.WaitForNotification();
  Pass(&watchdog, 13);
  EXPECT_EQ(watchdog.report().state, State::kStalled);
  EXPECT_THAT(watchdog.unhealthy_reason(), HasSubstr("HTTP: no progress for"));
  open.Notify();
  client.join();
  EXPECT_TRUE(Eventually([&] {
    Pass(&watchdog, 1);
    return watchdog.report().state == State::kHealthy;
  }));
}

}  // namespace
}  // namespace dunlin::server
