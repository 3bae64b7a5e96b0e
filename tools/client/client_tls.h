// SPDX-License-Identifier: Apache-2.0
// How a client encrypts and whom it trusts: TLS 1.2 and 1.3, over gRPC and HTTP. Thread rule: any thread.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace boost::asio::ssl {
class context;
}

namespace dunlin::tools {

// All unset: no TLS. Any of them turns it on.
struct ClientTls {
  bool on = false;
  std::string ca_file;      // authorities of the server's certificate (PEM); empty: those of the system
  std::string cert_file;    // the client's own certificate, for servers that ask for one (PEM)
  std::string key_file;     // its key, without a passphrase
  std::string server_name;  // what the server's certificate is for; empty: the host of the address

  bool enabled() const {
    return on || !ca_file.empty() || !cert_file.empty() || !key_file.empty() || !server_name.empty();
  }
};

// A channel to "host:port", which connects when it is used. api_key: sent with every call as "authorization: Bearer
// KEY", if not empty. Errors: INVALID_ARGUMENT naming the option and the file that cannot be used.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address, const ClientTls& tls,
                                                           const std::string& api_key,
                                                           grpc::ChannelArguments arguments);

// For HTTP clients. REQUIRES: tls.enabled(). Errors: as OpenChannel.
absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> HttpContext(const ClientTls& tls);

}  // namespace dunlin::tools
