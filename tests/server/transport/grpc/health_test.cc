// SPDX-License-Identifier: Apache-2.0
// Health: every name NOT_SERVING from the start, Check and Watch, and what a drain and a shutdown say.
#include <gtest/gtest.h>

#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr const char* kNames[] = {"", "dunlin.v1.GenerationService", "dunlin.v1.ModelService",
                                  "dunlin.v1.TokenizerService", "grpc.health.v1.Health"};

struct Answer {
  grpc::Status status;
  HealthCheckResponse::ServingStatus serving;
};

Answer Check(const EdgeServer& edge, const std::string& service) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = Health::NewStub(edge.channel())->Check(&context, request, &response);
  return {status, response.status()};
}

struct Watched {
  Watched(const EdgeServer& edge, const std::string& service) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    HealthCheckRequest request;
    request.set_service(service);
    stub = Health::NewStub(edge.channel());
    reader = stub->Watch(&context, request);
  }
  // -1 when the stream is over.
  int Next() {
    HealthCheckResponse response;
    return reader->Read(&response) ? response.status() : -1;
  }
  grpc::ClientContext context;
  std::unique_ptr<Health::Stub> stub;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
};

TEST(Health, EveryNameFollowsSetServing) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  for (const char* name : kNames) EXPECT_EQ(Check(edge, name).serving, HealthCheckResponse::NOT_SERVING) << name;
  edge.server().SetServing(true);
  for (const char* name : kNames) EXPECT_EQ(Check(edge, name).serving, HealthCheckResponse::SERVING) << name;
  edge.server().SetServing(false);
  for (const char* name : kNames) EXPECT_EQ(Check(edge, name).serving, HealthCheckResponse::NOT_SERVING) << name;
  EXPECT_EQ(Check(edge, "no.such.Service").status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(Health, WatchTellsEveryChangeAndEndsWithTheServer) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  Watched watched(edge, "dunlin.v1.GenerationService");
  Watched unknown(edge, "no.such.Service");
  EXPECT_EQ(watched.Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(unknown.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  edge.server().SetServing(true);
  EXPECT_EQ(watched.Next(), HealthCheckResponse::SERVING);
  edge.server().StartDraining();
  EXPECT_EQ(watched.Next(), HealthCheckResponse::NOT_SERVING);
  edge.server().SetServing(true);  // draining is for good
  EXPECT_EQ(Check(edge, "").serving, HealthCheckResponse::NOT_SERVING);
  std::thread down([&] { edge.server().Shutdown(absl::Now()); });
  EXPECT_EQ(watched.Next(), -1);
  EXPECT_EQ(watched.reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(unknown.Next(), -1);
  down.join();
}

TEST(Health, ACancelledWatchIsForgotten) {
  EdgeServer edge;
  for (int i = 0; i < 50; ++i) {
    Watched watched(edge, "");
    EXPECT_EQ(watched.Next(), HealthCheckResponse::SERVING);
    watched.context.TryCancel();
    EXPECT_EQ(watched.Next(), -1);
  }
  edge.server().SetServing(false);
  EXPECT_EQ(Check(edge, "").serving, HealthCheckResponse::NOT_SERVING);
}

}  // namespace
}  // namespace dunlin::server
