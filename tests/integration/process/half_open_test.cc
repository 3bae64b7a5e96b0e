// SPDX-License-Identifier: Apache-2.0
// 10,000 connections to both ports of the binary that never become one: silent, with a part of a ClientHello, or with
// a handshake that stops after the server's answer. Streams beside them stay as they are, and the server's descriptors
// come back, its memory but for what the first ones leave in pools. Where the process may not have as many descriptors,
// there are as many as it may, and the number is printed.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/server/transport/http/raw_client.h"
#include "tests/server/transport/tls/test_authority.h"
#include "tests/server/transport/tls/tls_client.h"

namespace dunlin::integration {
namespace {

using server::RawClient;
using Clock = std::chrono::steady_clock;

constexpr int kWanted = 10000;
constexpr int kSpare = 500;  // descriptors of either process for everything else
constexpr size_t kLeastKept = size_t{32} << 20;
constexpr size_t kMostKeptShare = 4;         // of what the connections held while they were open: one in so many bytes
constexpr size_t kPools = size_t{64} << 20;  // of the allocator and of gRPC, after the first 10,000
constexpr char kPrompt[] = "The harbour";

int NumHalfOpen() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // the server inherits it
  return static_cast<int>(std::min<rlim_t>(kWanted + kSpare, limit.rlim_max)) - kSpare;
}

// The first message of a client's handshake.
std::string ClientHello() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl);  // writes it, and then lacks an answer
  std::string hello(BIO_ctrl_pending(out), '\0');
  BIO_read(out, hello.data(), static_cast<int>(hello.size()));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

struct Held {
  size_t resident_bytes = 0;
  int descriptors = 0;
};

Held HeldBy(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  Held held;
  size_t pages = 0;
  std::ifstream statm(folder + "/statm");
  statm >> pages >> pages;
  held.resident_bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::error_code error;
  held.descriptors = static_cast<int>(std::distance(std::filesystem::directory_iterator(folder + "/fd", error), {}));
  return held;
}

class HalfOpen : public ::testing::Test {
 protected:
  HalfOpen() {
    const server::TestCertificate own = authority_.Issue("server");
    const std::string most = std::to_string(2 * kWanted);
    std::vector<std::string> settings;
    for (const std::string& setting :
         {"tls.cert_file=" + folder_.Write("server.pem", own.certificate),
          "tls.key_file=" + folder_.Write("server.key", own.key), "limits.max_connections=" + most,
          "limits.max_connections_per_address=" + most, "limits.max_http_connections=" + most,
          "limits.max_http_connections_per_address=" + most, std::string("limits.handshake_timeout_ms=8000"),
          std::string("limits.http_read_timeout_ms=8000")}) {
      settings.insert(settings.end(), {"--set", setting});
    }
    server_.emplace(DUNLIN_SOURCE_DIR "/configs/demo.json", settings);
  }

  // The tokens of a stream over gRPC; of one over HTTP the text.
  std::string GrpcStream() const {
    const CommandResult result =
        RunDunlin({"generate", "--address", server_->grpc(), "--model", "demo", "--json", "--max-tokens", "300",
                   "--ignore-eos", "--temperature", "0", "--tls-ca", ca_, "--timeout-ms", "30000", kPrompt});
    const auto answer = nlohmann::json::parse(result.out, nullptr, false);
    return answer.contains("token_ids") ? answer["token_ids"].dump() : result.out + result.err;
  }
  std::string HttpStream() const {
    const std::string body = nlohmann::json({{"model", "demo"},
                                             {"prompt", kPrompt},
                                             {"max_tokens", 300},
                                             {"temperature", 0},
                                             {"ignore_eos", true},
                                             {"stream", true}})
                                 .dump();
    server::TlsClientOptions options;
    options.authority = authority_.certificate();
    server::TlsClient client(server_->http(), options);
    client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string reply = client.ReadAll();
    std::string text;
    for (size_t at = 0; (at = reply.find("data: {", at)) != std::string::npos; ++at) {
      const auto event = nlohmann::json::parse(reply.substr(at + 6, reply.find('\n', at) - at - 6), nullptr, false);
      if (event.is_object() && !event["choices"].empty()) text += event["choices"][0]["text"].get<std::string>();
    }
    return text;
  }
  // Half of them to each port, one kind after another.
  std::vector<RawClient> Open(int count) const {
    std::vector<RawClient> clients;
    clients.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      clients.emplace_back(i % 2 == 0 ? server_->grpc() : server_->http());
      const int kind = i / 2 % 3;
      if (kind == 1) clients.back().Send(hello_.substr(0, hello_.size() / 2));
      if (kind == 2) clients.back().Send(hello_);
    }
    return clients;
  }
  // What the server holds once it has accepted more than half of `count_` connections beyond `before`; waits 5 s at
  // most, since the first of them are closed then.
  Held HeldByAccepted(const Held& before) const {
    Held now = HeldBy(server_->pid());
    for (const auto end = Clock::now() + std::chrono::seconds(5);
         now.descriptors - before.descriptors <= count_ / 2 && Clock::now() < end;) {
      now = HeldBy(server_->pid());
    }
    return now;
  }
  // Waits until the server holds no more descriptors than `before` and at most `kept_bytes` more, 60 s at most.
  void ExpectBackAt(const Held& before, size_t kept_bytes) const {
    Held now;
    for (const auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;) {
      now = HeldBy(server_->pid());
      if (now.descriptors <= before.descriptors && now.resident_bytes <= before.resident_bytes + kept_bytes) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ADD_FAILURE() << now.descriptors << " descriptors, " << now.resident_bytes << " bytes; before "
                  << before.descriptors << " and " << before.resident_bytes << " and " << kept_bytes << " more";
  }

  const int count_ = NumHalfOpen();
  const std::string hello_ = ClientHello();
  const server::TestFolder folder_;
  server::TestAuthority authority_{"authority"};
  const std::string ca_ = folder_.Write("ca.pem", authority_.certificate());
  std::optional<ServerProcess> server_;
};

TEST_F(HalfOpen, TenThousandLeaveStreamsBesideThemAlone) {
  ASSERT_TRUE(server_->ready()) << server_->Log();
  const std::string grpc_alone = GrpcStream();
  const std::string http_alone = HttpStream();
  ASSERT_GT(http_alone.size(), 300U) << http_alone;
  const Held at_start = HeldBy(server_->pid());
  {  // what stays in pools is there from now on
    const std::vector<RawClient> first = Open(count_);
    HeldByAccepted(at_start);
  }
  ExpectBackAt(at_start, kPools + kLeastKept);
  const Held before = HeldBy(server_->pid());

  std::atomic<bool> attacked{true};
  const auto repeat = [&attacked](const std::function<std::string()>& stream, const std::string& alone) {
    int streams = 0;
    do {
      EXPECT_EQ(stream(), alone);
      ++streams;
    } while (attacked);
    return streams;
  };
  auto on_grpc = std::async(std::launch::async, [&] { return repeat([this] { return GrpcStream(); }, grpc_alone); });
  auto on_http = std::async(std::launch::async, [&] { return repeat([this] { return HttpStream(); }, http_alone); });
  const auto begin = Clock::now();
  std::vector<RawClient> clients = Open(count_);
  const std::chrono::duration<double> opened = Clock::now() - begin;
  const Held during = HeldByAccepted(before);
  int closed = 0;
  const auto last = Clock::now() + std::chrono::seconds(60);
  for (auto client = clients.begin(); client != clients.end() && Clock::now() < last; ++client) {
    const auto from = Clock::now();
    client->ReadAll();  // the server's part of a handshake, if it came so far; gives up after 20 s
    closed += Clock::now() - from < std::chrono::seconds(18) ? 1 : 0;
  }
  attacked = false;
  const int streams = on_grpc.get() + on_http.get();
  clients.clear();
  EXPECT_GT(during.descriptors - before.descriptors, count_ / 2) << "they are there at the same time";
  std::printf("%d connections in %.1f s; %d descriptors and %zu MB more while they were open; %d streams beside them\n",
              count_, opened.count(), during.descriptors - before.descriptors,
              (during.resident_bytes - before.resident_bytes) >> 20, streams);
  EXPECT_EQ(closed, count_) << "the server closes those that do not finish";
  EXPECT_GE(streams, 2);
  const size_t held = during.resident_bytes - std::min(during.resident_bytes, before.resident_bytes);
  ExpectBackAt(before, std::max(kLeastKept, held / kMostKeptShare));
}

}  // namespace
}  // namespace dunlin::integration
