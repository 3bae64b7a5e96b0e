// SPDX-License-Identifier: Apache-2.0
// Calls that are opened and not seen through, thousands a second, against `dunlin serve` in a process of its own: the
// connection is cut at once, the server's memory stays, and a neighbour is served as before. A client that cancels as
// routers do is left alone. tests/bench/rapid_reset.cc measures the same for longer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "dunlin/v1/generation.pb.h"
#include "tests/integration/process/child.h"
#include "tests/integration/process/grpc_neighbour.h"
#include "tests/integration/process/http2_flood.h"
#include "tests/server/transport/tls/test_authority.h"
#include "tests/server/transport/tls/tls_client.h"

namespace dunlin::integration {
namespace {

constexpr double kSoon = 2.0;          // seconds until a connection is cut
constexpr int64_t kManyCalls = 20000;  // more than a connection that is cut so soon can send
constexpr size_t kMemory = size_t{200} << 20;
constexpr double kLeastLimitMs = 100;  // of a neighbour on a machine that does other things, too

size_t ResidentBytes(pid_t pid) {
  size_t pages = 0;
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  statm >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

FloodCall Generation() {
  v1::GenerateRequest request;
  request.set_model("demo");
  request.set_text("The people of the coast");
  return {"/dunlin.v1.GenerationService/Generate", request.SerializeAsString()};
}

class RapidReset : public ::testing::Test {
 protected:
  // Floods, and expects every connection to be cut soon.
  void ExpectCut(FloodOptions options) {
    options.time = std::chrono::milliseconds(4000);
    const FloodResult result = Flood(server_.grpc(), options);
    const std::string what = options.call.method + " " + options.shape->name;
    EXPECT_EQ(result.num_closed, options.num_connections) << what;
    EXPECT_LT(result.last_cut_s, kSoon * options.num_connections) << what;
    EXPECT_LT(result.num_calls, kManyCalls * options.num_connections) << what;
  }
  double NumCut() const {
    return MetricValue(HttpGet(server_.http(), "/metrics"), "dunlin_grpc_connections_cut_total");
  }

  ServerProcess server_{DUNLIN_SOURCE_DIR "/configs/demo.json"};
};

TEST_F(RapidReset, CutsItsConnectionWhateverTheCallAndKeepsTheMemory) {
  ASSERT_TRUE(server_.ready()) << server_.Log();
  GrpcNeighbour neighbour(server_.grpc(), "demo");
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const Latencies before = neighbour.Measure();
  ASSERT_TRUE(PoolIsBacked(server_.http(), "demo"));
  const size_t memory = ResidentBytes(server_.pid());
  size_t most = memory;
  for (const char* method :
       {"/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check", "/dunlin.v1.GenerationService/Generate",
        "/dunlin.v1.EmbeddingService/Embed", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/inference.GRPCInferenceService/ModelStreamInfer", "/vllm.Inference/Generate",
        "/vllm.grpc.engine.VllmEngine/Generate", "/no.such.Service/Method"}) {
    ExpectCut({.call = {method, ""}});
    most = std::max(most, ResidentBytes(server_.pid()));
  }
  for (const char* shape : {"reset_without_message", "reset_half_sent", "reset_in_pieces", "expired", "malformed",
                            "endless_headers", "unacknowledged"}) {
    ExpectCut({.shape = FindFloodShape(shape)});
    most = std::max(most, ResidentBytes(server_.pid()));
  }
  ExpectCut({.call = Generation()});
  ExpectCut({.num_connections = 16});
  most = std::max(most, ResidentBytes(server_.pid()));
  const Latencies during = neighbour.Measure();
  EXPECT_LT(most - memory, kMemory);
  EXPECT_EQ(during.num_failed, 0) << during.last_error;
  // The calls of connections that are about to be cut count in limits.max_concurrent_requests (docs/reliability.md): on
  // a busy machine for longer than milliseconds.
  EXPECT_LT(during.num_refused, during.num_calls / 4);
  EXPECT_EQ(during.num_unhealthy, 0);
  EXPECT_GT(during.num_calls, 10);
  EXPECT_LT(during.p99_ms, std::max(kLeastLimitMs, 5 * before.p99_ms));
  EXPECT_GE(NumCut(), 20) << "gRPC itself closes a connection with more streams than it may have";
  EXPECT_TRUE(ComesToLog(server_, "gRPC connection from 127.0.0.1 cut: it opened too many calls"));
}

TEST_F(RapidReset, AClientThatConnectsAgainAndAgainGetsNoFurther) {
  ASSERT_TRUE(server_.ready()) << server_.Log();
  GrpcNeighbour neighbour(server_.grpc(), "demo");
  ASSERT_TRUE(PoolIsBacked(server_.http(), "demo"));
  const size_t memory = ResidentBytes(server_.pid());
  const FloodResult result = Flood(server_.grpc(), {.num_connections = 4, .connects_again = true});
  EXPECT_GT(result.num_closed, 20);
  EXPECT_LT(ResidentBytes(server_.pid()) - memory, kMemory);
  const Latencies during = neighbour.Measure();
  EXPECT_EQ(during.num_failed, 0) << during.last_error;
  EXPECT_EQ(during.num_unhealthy, 0);
}

TEST_F(RapidReset, ARouterThatCancelsAHundredCallsASecondIsLeftAlone) {
  ASSERT_TRUE(server_.ready()) << server_.Log();
  const FloodResult result =
      Flood(server_.grpc(), {.call = Generation(), .calls_per_second = 100, .time = std::chrono::milliseconds(5000)});
  EXPECT_EQ(result.num_closed, 0);
  EXPECT_GT(result.num_calls, 450);
  EXPECT_EQ(NumCut(), 0);
}

TEST(RapidResetOverTls, CutsItsConnection) {
  const server::TestFolder folder;
  server::TestAuthority authority("authority");
  const server::TestCertificate own = authority.Issue("server");
  const ServerProcess server(DUNLIN_SOURCE_DIR "/configs/demo.json",
                             {"--set", "tls.cert_file=" + folder.Write("server.pem", own.certificate), "--set",
                              "tls.key_file=" + folder.Write("server.key", own.key)});
  ASSERT_TRUE(server.ready()) << server.Log();
  server::TlsClientOptions options;
  options.authority = authority.certificate();
  options.protocol = "h2";
  server::TlsClient client(server.grpc(), options);
  ASSERT_TRUE(client.connected());
  const FloodShape* shape = FindFloodShape("reset");
  EXPECT_TRUE(client.Send(FloodPreface(*shape)));
  uint32_t stream = 1;
  const auto is_taken = [&] { return client.Send(shape->frames(stream, {"/grpc.health.v1.Health/Check", ""})); };
  while (stream < 2 * kManyCalls && is_taken()) stream += 2;
  EXPECT_LT(stream, 2 * kManyCalls) << "twice the number of calls";
}

}  // namespace
}  // namespace dunlin::integration
