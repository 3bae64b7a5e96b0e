// SPDX-License-Identifier: Apache-2.0
// Requests and replies of the HTTP port, without any type of the library that parses them. Plain data.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "server/access/principal.h"

namespace dunlin::server {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";
inline constexpr char kJsonText[] = "application/json";
inline constexpr int kNoContent = 204;
inline constexpr int kNotFound = 404;
inline constexpr int kNotModified = 304;
inline constexpr int kUnsupportedMediaType = 415;
inline constexpr unsigned kHttp10 = 10;  // as Beast numbers versions

struct HttpHeader {
  std::string name;
  std::string value;
};

// A request without its body.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // as sent, without the query
  std::string query;   // as sent, without the '?'
  std::string
      authority;  // the server as the client names it, "localhost:8080": of the target, else Host; "" if neither
  std::string parameter;  // what stands for {name} in the route's path, percent-decoded
  std::vector<HttpHeader> headers;
  std::string peer;  // the client's address: "192.0.2.1"
  Principal caller;  // set by the route's guard

  // The first header of that name, in any case; "" if there is none.
  std::string_view header(std::string_view name) const {
    const auto found = std::find_if(headers.begin(), headers.end(), [name](const HttpHeader& header) {
      return absl::EqualsIgnoreCase(header.name, engine::AbslView(name));
    });
    return found == headers.end() ? std::string_view() : std::string_view(found->value);
  }
};

// A whole response. The transport adds Content-Length, Connection and what CORS asks for.
struct HttpReply {
  int status = 200;
  std::string content_type;
  std::string body;
  std::vector<HttpHeader> headers = {};
};

}  // namespace dunlin::server
