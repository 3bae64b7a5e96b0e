// SPDX-License-Identifier: Apache-2.0
// The HTTP port over TLS: what the handlers and the time limits of a connection see is what they see over plain TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/transport/http/http_server.h"
#include "tests/server/transport/http/raw_client.h"
#include "tests/server/transport/http/recording_handler.h"
#include "tests/server/transport/tls/test_authority.h"
#include "tests/server/transport/tls/tls_client.h"

namespace dunlin::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMaxBody = size_t{2} << 20;

class HttpsTest : public ::testing::Test {
 protected:
  void Start(const HttpTimeouts& timeouts = {}) {
    const TestCertificate own = authority_.Issue("server");
    certificates_ = *CertificateStore::Open({folder_.Write("cert", own.certificate), folder_.Write("key", own.key), ""},
                                            kHttpApplicationProtocol);
    HttpServerOptions options;
    options.connections = {64, 64};
    options.timeouts = timeouts;
    options.certificates = certificates_.get();
    HttpRoute calls{"POST", "/calls"};
    calls.open = [this] { return handler_; };
    calls.max_body_bytes = kMaxBody;
    options.routes = {calls};
    server_ = *HttpServer::Start("127.0.0.1:0", std::move(options));
  }
  // A client whose call, with this body, has reached the handler.
  std::unique_ptr<TlsClient> Call(const std::string& body) {
    TlsClientOptions options;
    options.authority = authority_.certificate();
    auto client = std::make_unique<TlsClient>(server_->bound_address(), options);
    EXPECT_TRUE(client->connected());
    client->Send("POST /calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                 "\r\n\r\n" + body);
    exchange_ = handler_->WaitForExchange();
    EXPECT_NE(exchange_, nullptr);
    return client;
  }

  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  std::unique_ptr<CertificateStore> certificates_;
  const std::shared_ptr<RecordingHandler> handler_ = std::make_shared<RecordingHandler>();
  std::shared_ptr<HttpExchange> exchange_;
  std::unique_ptr<HttpServer> server_;
};

// Larger than a TLS record and than the sockets' buffers.
TEST_F(HttpsTest, LargeBodiesPassInBothDirections) {
  Start();
  std::string body;
  while (body.size() < kMaxBody - 100) body += "line " + std::to_string(body.size()) + "\n";
  const auto client = Call(body);
  EXPECT_EQ(handler_->seen().body, body);
  exchange_->Respond({200, "text/plain", body});
  exchange_.reset();
  EXPECT_THAT(client->ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(client->Read(body.size()), body);
  EXPECT_TRUE(handler_->WaitUntilDone());
}

TEST_F(HttpsTest, StreamsArriveAsTheyAreWrittenAndEndWithANotice) {
  Start();
  const auto client = Call("x");
  exchange_->Begin({200, "text/event-stream", "data: first\n\n"}, "");
  EXPECT_THAT(client->ReadUntil("data: first\n\n"), EndsWith("data: first\n\n"));
  EXPECT_TRUE(handler_->WaitUntil([](const auto& seen) { return seen.writes_done == 1; }));
  exchange_->Write("data: second\n\n");
  EXPECT_THAT(client->ReadUntil("data: second\n\n"), HasSubstr("data: second"));
  server_->StartDraining();
  exchange_->End("data: [DONE]\n\n");
  exchange_.reset();
  EXPECT_THAT(client->ReadAll(), EndsWith("0\r\n\r\n"));
  EXPECT_TRUE(handler_->WaitUntilDone());
}

TEST_F(HttpsTest, AClientThatClosesCancelsItsCall) {
  Start();
  auto client = Call("x");
  exchange_->Begin({200, "text/event-stream", "data: first\n\n"}, "");
  client->ReadUntil("data: first\n\n");
  SSL_shutdown(client->ssl());  // the notice alone: its socket stays open
  EXPECT_TRUE(handler_->WaitUntil([](const auto& seen) { return seen.cancelled; }));
  exchange_->End("");
  exchange_.reset();
  EXPECT_TRUE(handler_->WaitUntilDone());
}

TEST_F(HttpsTest, AClientThatDoesNotReadIsAbortedLikeAnyOther) {
  HttpTimeouts timeouts;
  timeouts.write = std::chrono::milliseconds(300);
  Start(timeouts);
  const auto client = Call("x");
  exchange_->Respond({200, "text/plain", std::string(size_t{64} << 20, 'x')});
  exchange_.reset();
  EXPECT_TRUE(handler_->WaitUntilDone());
}

// The time for the first byte covers the handshake; a client that has shaken hands has no more.
TEST_F(HttpsTest, TheHandshakeHasTheTimeOfTheFirstHeader) {
  HttpTimeouts timeouts;
  timeouts.read = std::chrono::milliseconds(300);
  timeouts.idle = std::chrono::minutes(10);
  Start(timeouts);
  RawClient silent(server_->bound_address());
  RawClient begun(server_->bound_address());
  begun.Send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  TlsClientOptions options;
  options.authority = authority_.certificate();
  TlsClient quiet(server_->bound_address(), options);
  ASSERT_TRUE(quiet.connected());
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(begun.ReadAll(), "");
  EXPECT_EQ(quiet.ReadAll(), "");
  TlsClient slow(server_->bound_address(), options);
  slow.Send("POST /calls HT");
  EXPECT_THAT(slow.ReadAll(), StartsWith("HTTP/1.1 408 ")) << "what came is answered";
}

}  // namespace
}  // namespace dunlin::server
