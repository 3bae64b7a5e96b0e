// SPDX-License-Identifier: Apache-2.0
// Clients that begin a TLS handshake and never finish it: they are closed in time, count as connections, and take
// nothing from a stream beside them.
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/transport/http/raw_client.h"
#include "tests/server/transport/tls/tls_edge.h"

namespace dunlin::server {
namespace {

constexpr int kHalfOpen = 500;  // on each port
// The head of a ClientHello of 512 bytes, of which no more comes.
const std::string kHelloHead("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);

// Descriptors for both ends of every connection.
void AllowDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t ResidentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The text of a completion over HTTP.
std::string Completion(const TlsEdge& tls) {
  const std::string body =
      R"({"model": "tiny", "prompt": "the neighbour", "max_tokens": 200, "temperature": 0, "ignore_eos": true})";
  TlsClient client(tls.http_address(), tls.ClientOptions());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string reply = client.ReadAll();
  const size_t begin = reply.find("\"text\":");
  EXPECT_NE(begin, std::string::npos) << reply;
  return reply.substr(std::min(begin, reply.size()), reply.find("\",", begin) - begin);
}

std::vector<RawClient> HalfOpen(const std::string& address) {
  std::vector<RawClient> clients;
  for (int i = 0; i < kHalfOpen; ++i) {
    clients.emplace_back(address);
    // Some say nothing at all.
    if (i % 4 != 0) clients.back().Send(kHelloHead);
  }
  return clients;
}

TEST(HalfOpenHandshakes, AThousandLeaveAStreamBesideThemAlone) {
  AllowDescriptors();
  TlsEdgeOptions options;
  options.http_timeouts.read = std::chrono::seconds(3);
  options.limits.handshake_timeout_ms = 3000;
  TlsEdge tls(options);
  const v1::GenerateRequest request = TextRequest("the neighbour", 200);
  const Reply alone = tls.edge().Generate(request);
  ASSERT_TRUE(alone.status.ok()) << alone.status.error_message();
  const std::string alone_on_http = Completion(tls);
  // What connections leave in pools is there from now on.
  { const auto first = HalfOpen(tls.http_address()), second = HalfOpen(tls.grpc_address()); }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const int64_t before = ResidentBytes();

  tls.edge().control().step_us = 10000;  // 2 s for the stream
  std::vector<RawClient> on_http = HalfOpen(tls.http_address());
  std::vector<RawClient> on_grpc = HalfOpen(tls.grpc_address());
  auto beside_on_http = std::async(std::launch::async, [&tls] { return Completion(tls); });
  const Reply beside = tls.edge().Generate(request);
  EXPECT_EQ(beside_on_http.get(), alone_on_http);
  EXPECT_TRUE(beside.status.ok()) << beside.status.error_message();
  EXPECT_EQ(beside.outputs.at(0).text, alone.outputs.at(0).text);
  EXPECT_EQ(beside.outputs.at(0).token_ids, alone.outputs.at(0).token_ids);
  int closed = 0;
  for (std::vector<RawClient>* clients : {&on_http, &on_grpc}) {
    for (RawClient& client : *clients) closed += client.HasInput(20000) && client.ReadAll().empty() ? 1 : 0;
  }
  EXPECT_EQ(closed, 2 * kHalfOpen) << "the server closes those that do not finish";
  on_http.clear();
  on_grpc.clear();
  EXPECT_TRUE(Eventually([&] { return ResidentBytes() < before + (int64_t{8} << 20); })) << ResidentBytes() - before;
}

TEST(HalfOpenHandshakes, CountAsConnections) {
  TlsEdgeOptions options;
  options.limits.max_connections = 4;
  options.http_connections = {4, 4};
  TlsEdge tls(options);
  std::vector<RawClient> clients;
  for (const std::string& address : {tls.http_address(), tls.grpc_address()}) {
    for (int i = 0; i < 4; ++i) clients.emplace_back(address);
    RawClient one_more(address);
    EXPECT_TRUE(one_more.HasInput(10000));
    EXPECT_EQ(one_more.ReadAll(), "") << "closed";
    EXPECT_FALSE(clients.back().HasInput(0)) << "the others are not";
  }
}

}  // namespace
}  // namespace dunlin::server
