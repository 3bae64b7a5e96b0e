// SPDX-License-Identifier: Apache-2.0
// Which pages a browser lets read the answers of this server (cross-origin resource sharing). Const after construction;
// any thread. Source: the Fetch standard, "HTTP extensions".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/transport/http/http_message.h"

namespace dunlin::server {

class CorsPolicy {
 public:
  // origins: "https://chat.example", or "*" for all; none: nothing is allowed.
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  // Whether pages of this origin may call; "" is the origin of a request that tells none.
  bool Allows(std::string_view origin) const;
  // What lets a page of this origin read a reply, if it is allowed: on every one, since a page sees no error without.
  // origin: the request's header of that name, or "".
  std::vector<HttpHeader> HeadersFor(std::string_view origin) const;
  // What a preflight, which asks on behalf of a page whether it may call, gets besides. methods: "POST, OPTIONS".
  std::vector<HttpHeader> PreflightHeadersOf(const HttpRequest& request, const std::string& methods) const;

 private:
  const std::vector<std::string> origins_;
};

}  // namespace dunlin::server
