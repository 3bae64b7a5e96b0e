// Where HTTP goes: "http://host:port/path" or "host:port", resolved once.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dunlin::server::load {

struct HttpTarget {
  std::string host;  // with port, for the Host field
  std::string path;  // begins with '/'
  boost::asio::ip::tcp::endpoint endpoint;
};

// default_path is taken when the URL has none. https is refused. Blocks while the name is resolved.
// Errors: INVALID_ARGUMENT, NOT_FOUND for a name without an address.
absl::StatusOr<HttpTarget> ResolveHttp(std::string_view url, std::string_view default_path);

}  // namespace dunlin::server::load
