// SPDX-License-Identifier: Apache-2.0
// Who can talk to the two ports under TLS: versions, ciphers, client certificates, and clients that do not speak it.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/server/transport/http/raw_client.h"
#include "tests/server/transport/tls/tls_edge.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kFrameHeadBytes = 9;  // of HTTP/2

enum class Port { kGrpc, kHttp };

std::string NameOf(Port port) {
  return port == Port::kGrpc ? "gRPC" : "HTTP";
}

// Whether the server takes part beyond the handshake: it sends its HTTP/2 settings, or answers a request.
bool Talks(TlsEdge* tls, Port port, TlsClientOptions options) {
  options.protocol = port == Port::kGrpc ? "h2" : "http/1.1";
  TlsClient client(port == Port::kGrpc ? tls->grpc_address() : tls->http_address(), options);
  if (!client.connected()) return false;
  EXPECT_EQ(client.protocol(), options.protocol);
  if (port == Port::kGrpc) return client.Read(kFrameHeadBytes).size() == kFrameHeadBytes;
  client.Send(kGetHealth);
  return client.ReadAll().rfind("HTTP/1.1 200 ", 0) == 0;
}

struct Credential {
  const char* name;
  std::optional<TestCertificate> certificate;
};

TEST(EdgeTls, VersionsTimesClientCertificatesTimesPorts) {
  TestAuthority stranger("stranger");
  const struct {
    bool client_ca;
    bool require;
    std::vector<const char*> accepted;
  } servers[] = {
      {false, true, {"none", "right", "wrong authority", "expired", "not yet valid"}},  // nobody asks for them
      {true, true, {"right"}},
      {true, false, {"none", "right"}},
  };
  for (const auto& server : servers) {
    TlsEdgeOptions options;
    options.client_ca = server.client_ca;
    options.require_client_certificate = server.require;
    TlsEdge tls(options);
    const Credential credentials[] = {{"none", std::nullopt},
                                      {"right", tls.authority().Issue("client")},
                                      {"wrong authority", stranger.Issue("client")},
                                      {"expired", tls.authority().Issue("client", -7200, -3600)},
                                      {"not yet valid", tls.authority().Issue("client", 3600, 7200)}};
    for (const int version : {TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
      for (const Credential& credential : credentials) {
        bool accepted = false;
        for (const char* name : server.accepted) accepted = accepted || std::string(name) == credential.name;
        for (const Port port : {Port::kGrpc, Port::kHttp}) {
          TlsClientOptions client = tls.ClientOptions(credential.certificate ? &*credential.certificate : nullptr);
          client.version = version;
          EXPECT_EQ(Talks(&tls, port, client), accepted && version != TLS1_1_VERSION)
              << NameOf(port) << ", version " << std::hex << version << ", certificate: " << credential.name
              << ", client CA " << server.client_ca << ", required " << server.require;
        }
      }
    }
  }
}

TEST(EdgeTls, CallsGoThroughWithAClientCertificate) {
  TlsEdgeOptions options;
  options.client_ca = true;
  TlsEdge tls(options);
  EXPECT_EQ(tls.edge().Generate(TextRequest("abc", 4)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const TestCertificate own = tls.authority().Issue("client");
  const auto channel = grpc::CreateChannel(tls.grpc_address(), tls.Credentials(&own));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto reader = v1::GenerationService::NewStub(channel)->Generate(&context, TextRequest("abc", 4));
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs[0].token_ids.size(), 4U);
}

// Forward secrecy and authenticated encryption alone.
TEST(EdgeTls, RefusesWeakCiphersOfTls12) {
  TlsEdge tls;
  for (const char* ciphers : {"ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA384", "AES128-GCM-SHA256"}) {
    TlsClientOptions options = tls.ClientOptions();
    options.version = TLS1_2_VERSION;
    options.ciphers = ciphers;
    EXPECT_FALSE(Talks(&tls, Port::kHttp, options)) << ciphers;
    EXPECT_FALSE(Talks(&tls, Port::kGrpc, options)) << ciphers;
    options.ciphers += ":ECDHE-ECDSA-AES128-GCM-SHA256";
    EXPECT_TRUE(Talks(&tls, Port::kHttp, options)) << ciphers;
    EXPECT_TRUE(Talks(&tls, Port::kGrpc, options)) << ciphers;
  }
}

TEST(EdgeTls, RefusesToRenegotiate) {
  TlsEdge tls;
  TlsClientOptions options = tls.ClientOptions();
  options.version = TLS1_2_VERSION;
  TlsClient client(tls.http_address(), options);
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(SSL_renegotiate(client.ssl()), 1);
  EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
}

TEST(EdgeTls, ClientsOfAnotherProtocolAreRefusedByAlpn) {
  TlsEdge tls;
  TlsClientOptions options = tls.ClientOptions();
  options.protocol = "h2";
  EXPECT_FALSE(TlsClient(tls.http_address(), options).connected());
  options.protocol = "";
  TlsClient client(tls.http_address(), options);
  ASSERT_TRUE(client.connected()) << "curl of long ago offers nothing";
  client.Send(kGetHealth);
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(client.got_close_notice());
}

// Requests in plain text end at once, not after a timeout: the server has a whole minute for each.
TEST(EdgeTls, PlainTextIsClosedAtOnce) {
  TlsEdgeOptions options;
  options.http_timeouts.read = std::chrono::minutes(1);
  options.limits.handshake_timeout_ms = 60000;
  TlsEdge tls(options);
  for (const std::string& address : {tls.http_address(), tls.grpc_address()}) {
    for (const char* bytes : {kGetHealth, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
      RawClient client(address);
      client.Send(bytes);
      EXPECT_TRUE(client.HasInput(10000)) << bytes;
      EXPECT_THAT(client.ReadAll(), ::testing::Not(HasSubstr("HTTP/1.1 2"))) << bytes;
    }
  }
  EXPECT_TRUE(Talks(&tls, Port::kHttp, tls.ClientOptions()));
}

}  // namespace
}  // namespace dunlin::server
