// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/http_route.h"

#include <optional>

#include "absl/strings/escaping.h"

namespace dunlin::server {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

// Nothing if a '%' is not followed by two hexadecimal digits, or stands for the byte 0.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    if (digits.size() != 2 || digits.find_first_not_of(kHexDigits) != digits.npos || digits == "00")
      return std::nullopt;
    decoded += absl::HexStringToBytes(std::string(digits));
    i += 2;
  }
  return decoded;
}

// What stands for the last segment of the pattern; "" if that is none in braces. Nothing if the path does not match.
std::optional<std::string_view> MatchPath(std::string_view pattern, std::string_view path) {
  const size_t brace = pattern.find('{');
  if (brace == pattern.npos) return pattern == path ? std::optional<std::string_view>("") : std::nullopt;
  if (path.size() <= brace || path.substr(0, brace) != pattern.substr(0, brace)) return std::nullopt;
  return path.substr(brace);
}

void AddMethod(std::string_view method, std::string* allow) {
  if (!allow->empty()) allow->append(", ");
  allow->append(method);
}

// "/v1/" of "/v1/models"
std::string_view FirstSegment(std::string_view path) {
  return path.substr(0, path.find('/', 1) + 1);
}

}  // namespace

HttpRouteTable::Match HttpRouteTable::Find(std::string_view method, std::string_view path) const {
  Match match;
  for (const HttpRoute& route : routes_) {
    const std::optional<std::string_view> parameter = MatchPath(route.path, path);
    if (!parameter.has_value()) continue;
    AddMethod(route.method, &match.allow);
    if (route.method == "GET") AddMethod("HEAD", &match.allow);
    match.cors = match.cors || route.cors;
    const bool is_method = route.method == method || (route.method == "GET" && method == "HEAD");
    if (!is_method || match.route != nullptr) continue;
    std::optional<std::string> decoded = PercentDecoded(*parameter);
    match.route = &route;
    match.malformed = !decoded.has_value();
    match.parameter = std::move(decoded).value_or("");
  }
  if (!match.allow.empty()) AddMethod("OPTIONS", &match.allow);
  return match;
}

HttpRouteTable::Neighbour HttpRouteTable::NeighbourOf(const HttpRequest& request) const {
  std::string_view path = request.path;
  while (path.ends_with('/')) path.remove_suffix(1);
  Neighbour neighbour;
  const HttpRoute* above = nullptr;
  const HttpRoute* of_client = nullptr;
  for (const HttpRoute& route : routes_) {
    const std::string_view known = route.path;
    if (path.starts_with(known) && path.substr(known.size()).starts_with('/')) above = &route;
    if (route.client_header != nullptr && !request.header(route.client_header).empty()) of_client = &route;
    const bool near = path.size() > 1 && (known.ends_with(path) || path.ends_with(known));
    if (near && (neighbour.route == nullptr || known.size() > neighbour.route->path.size())) neighbour.route = &route;
    const bool same_api = known.find('/', 1) != known.npos && FirstSegment(known) == FirstSegment(path);
    if (same_api && route.refusal_body != nullptr && neighbour.api == nullptr) neighbour.api = &route;
  }
  for (const HttpRoute* route : {neighbour.route, above, of_client}) {
    if (route != nullptr) neighbour.api = route;
  }
  return neighbour;
}

}  // namespace dunlin::server
