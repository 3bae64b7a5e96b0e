// SPDX-License-Identifier: Apache-2.0
// An Edge whose two ports speak TLS with a certificate of a test's authority, and clients for it.
#pragma once

#include <memory>
#include <string>

#include "server/transport/http/http_timeouts.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/transport/tls/test_authority.h"
#include "tests/server/transport/tls/tls_client.h"

namespace dunlin::server {

struct TlsEdgeOptions {
  bool client_ca = false;
  bool require_client_certificate = true;
  Limits limits;
  HttpTimeouts http_timeouts;
  ConnectionLimits http_connections{4096, 1024};
};

class TlsEdge {
 public:
  explicit TlsEdge(const TlsEdgeOptions& options = {});

  TestAuthority& authority() { return authority_; }
  CertificateStore& certificates() { return *certificates_; }
  EdgeServer& edge() { return *edge_; }
  std::string grpc_address() const { return edge_->address(); }
  std::string http_address() const { return edge_->server().http_address(); }

  // Options of a client that trusts the server and has this certificate, if any.
  TlsClientOptions ClientOptions(const TestCertificate* own = nullptr) const;
  // Credentials of the same.
  std::shared_ptr<grpc::ChannelCredentials> Credentials(const TestCertificate* own = nullptr) const;
  // The files hold this certificate from now on, and the server has been told.
  absl::StatusOr<bool> Replace(const TestCertificate& own);

 private:
  const TestFolder folder_;
  TestAuthority authority_{"authority"};
  std::unique_ptr<CertificateStore> certificates_;
  std::unique_ptr<EdgeServer> edge_;
};

// "GET /healthz" of the HTTP port, whose connection ends with the answer.
inline constexpr char kGetHealth[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

}  // namespace dunlin::server
