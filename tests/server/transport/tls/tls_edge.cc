// SPDX-License-Identifier: Apache-2.0
#include "tests/server/transport/tls/tls_edge.h"

#include <gtest/gtest.h>

#include <utility>

namespace dunlin::server {

TlsEdge::TlsEdge(const TlsEdgeOptions& options) {
  const TestCertificate own = authority_.Issue("first");
  TlsFiles files;
  files.certificate = folder_.Write("server.pem", own.certificate);
  files.key = folder_.Write("server.key", own.key);
  if (options.client_ca) files.client_ca = folder_.Write("ca.pem", authority_.certificate());
  files.require_client_certificate = options.require_client_certificate;
  absl::StatusOr<std::unique_ptr<CertificateStore>> store = CertificateStore::Open(files, "http/1.1");
  EXPECT_TRUE(store.ok()) << store.status();
  certificates_ = *std::move(store);

  EdgeServerOptions edge;
  edge.limits = options.limits;
  edge.server.certificates = certificates_.get();
  edge.server.http.emplace();
  edge.server.http->address = "127.0.0.1:0";
  edge.server.http->timeouts = options.http_timeouts;
  edge.server.http->connections = options.http_connections;
  const auto text = [] { return std::string(); };
  edge.server.http->sources = {[] { return std::string("metric 1\n"); }, text, text};
  edge.credentials = Credentials();
  edge_ = std::make_unique<EdgeServer>(std::move(edge));
}

TlsClientOptions TlsEdge::ClientOptions(const TestCertificate* own) const {
  TlsClientOptions options;
  options.authority = authority_.certificate();
  if (own != nullptr) options.certificate = own->certificate;
  if (own != nullptr) options.key = own->key;
  return options;
}

std::shared_ptr<grpc::ChannelCredentials> TlsEdge::Credentials(const TestCertificate* own) const {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority_.certificate();
  if (own != nullptr) options.pem_cert_chain = own->certificate;
  if (own != nullptr) options.pem_private_key = own->key;
  return grpc::SslCredentials(options);
}

absl::StatusOr<bool> TlsEdge::Replace(const TestCertificate& own) {
  folder_.Write("server.pem", own.certificate);
  folder_.Write("server.key", own.key);
  return certificates_->Refresh(CertificateStore::When::kNow);
}

}  // namespace dunlin::server
