// SPDX-License-Identifier: Apache-2.0
// The server of an HTTP request: "http://host:port/path", "https://..." or "host:port", resolved once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/client/client_tls.h"

namespace dunlin::tools::load {

struct HttpTarget {
  std::string host;     // with port, for the Host field
  std::string path;     // begins with '/'
  std::string address;  // numeric, IPv4 or IPv6
  uint16_t port = 0;
  std::string name;                                // whose certificate a TLS server shows
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain HTTP
  std::string api_key;                             // sent as "Authorization: Bearer KEY"; "": none is
};

// Uses default_path when the URL has none. https is TLS, http is not, and without either tls.enabled() decides. Blocks
// while the name is resolved. Errors: INVALID_ARGUMENT, also for a file of tls that cannot be used; NOT_FOUND for a
// name without an address.
absl::StatusOr<HttpTarget> ResolveHttp(std::string_view url, std::string_view default_path, const ClientTls& tls = {});

}  // namespace dunlin::tools::load
