// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dunlin::server {
namespace {

grpc_ssl_client_certificate_request_type ClientCertificateRequest(const TlsFiles& files) {
  if (files.client_ca.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return files.require_client_certificate ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                          : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

// grpc::SslServerCredentials takes texts that stay; the function that fetches them is in gRPC's C interface alone, and
// grpc::experimental::TlsServerCredentials of 1.51 drops the former certificate before it has tried the new one.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchedCredentials(const CertificateStore* certificates)
      : certificates_(certificates),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                ClientCertificateRequest(certificates->files()), &Fetch, this))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }
  FetchedCredentials(const FetchedCredentials&) = delete;
  FetchedCredentials& operator=(const FetchedCredentials&) = delete;

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override {
    (void)processor;  // gRPC's hook for call credentials, which this server does not use
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    auto* const credentials = static_cast<FetchedCredentials*>(self);
    std::shared_ptr<const ServerIdentity> identity = credentials->certificates_->current();
    absl::MutexLock lock(&credentials->mutex_);
    if (identity == credentials->fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {identity->key_pem.c_str(), identity->certificate_pem.c_str()};
    // gRPC 1.51 insists on authorities when a certificate is replaced, also where none are used.
    const std::string& authorities =
        identity->client_ca_pem.empty() ? identity->certificate_pem : identity->client_ca_pem;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    credentials->fetched_ = std::move(identity);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const CertificateStore* const certificates_;
  grpc_server_credentials* const credentials_;
  absl::Mutex mutex_;  // guards what follows, between handshakes
  std::shared_ptr<const ServerIdentity> fetched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const CertificateStore* certificates) {
  return std::make_shared<FetchedCredentials>(certificates);
}

}  // namespace dunlin::server
