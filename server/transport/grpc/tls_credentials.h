// SPDX-License-Identifier: Apache-2.0
// The credentials of a gRPC server whose certificate may change while it runs: gRPC asks for it before each handshake.
// TLS 1.2 and 1.3; connections that exist keep what they were opened with. Thread rule: any thread.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/transport/tls/certificate_store.h"

namespace dunlin::server {

// certificates and the result outlive the server.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const CertificateStore* certificates);

}  // namespace dunlin::server
