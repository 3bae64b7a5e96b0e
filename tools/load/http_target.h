// SPDX-License-Identifier: Apache-2.0
// The server of an HTTP request: "http://host:port/path" or "host:port", resolved once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dunlin::tools::load {

struct HttpTarget {
  std::string host;     // with port, for the Host field
  std::string path;     // begins with '/'
  std::string address;  // numeric, IPv4 or IPv6
  uint16_t port = 0;
};

// Uses default_path when the URL has none. https is refused. Blocks while the name is resolved.
// Errors: INVALID_ARGUMENT, NOT_FOUND for a name without an address.
absl::StatusOr<HttpTarget> ResolveHttp(std::string_view url, std::string_view default_path);

}  // namespace dunlin::tools::load
