// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/browser_guard.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

constexpr int kForbidden = 403;
constexpr int kMisdirected = 421;
constexpr size_t kMaxShownBytes = 128;

bool EqualNames(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(engine::AbslView(a), engine::AbslView(b));
}

bool BeginsWith(std::string_view text, std::string_view start) {
  return absl::StartsWithIgnoreCase(engine::AbslView(text), engine::AbslView(start));
}

std::string Shown(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, kMaxShownBytes))), "\"");
}

// Without the port; "" if what stands there is none.
std::string_view HostOf(std::string_view authority) {
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == authority.npos) return {};
  const size_t colon = authority.find(':', bracket);
  const std::string_view port = colon == authority.npos ? "" : authority.substr(colon + 1);
  const bool digits = std::all_of(port.begin(), port.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  const std::string_view host = authority.substr(0, colon);
  const bool closed = bracket == 0 || host.ends_with(']');
  return digits && closed ? host : std::string_view();
}

// "https://chat.example" of the authority "chat.example": the same server, as a page's origin.
bool IsOriginOf(std::string_view origin, std::string_view authority) {
  const size_t scheme = origin.find("://");
  return scheme != origin.npos && EqualNames(origin.substr(scheme + 3), authority);
}

// Whether a page of another site has had the browser send this. Browsers that tell (Sec-Fetch-Site) are believed;
// others send the origin of the page with everything but GET and HEAD, which change nothing here and whose answers only
// pages of the server's own name can read.
bool IsFromAnotherSite(const HttpRequest& request) {
  const std::string_view site = request.header("Sec-Fetch-Site");
  if (!site.empty()) return site != "same-origin" && site != "none";
  const std::string_view origin = request.header("Origin");
  const bool reads = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  return !reads && !origin.empty() && !IsOriginOf(origin, request.authority);
}

// Every browser names itself so, and a page that changes that across sites has to ask first; the others are what
// browsers alone send.
bool ShowsABrowser(const HttpRequest& request) {
  const std::string_view agent = request.header("User-Agent");
  return BeginsWith(agent, "Mozilla/") || BeginsWith(agent, "Opera/") ||
         std::any_of(request.headers.begin(), request.headers.end(), [](const HttpHeader& header) {
           return EqualNames(header.name, "Origin") || EqualNames(header.name, "Referer") ||
                  BeginsWith(header.name, "Sec-");
         });
}

// "application/json" of "Application/JSON; charset=utf-8".
std::string MediaType(std::string_view content_type) {
  const std::string_view essence = content_type.substr(0, content_type.find(';'));
  return absl::AsciiStrToLower(std::string(engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(essence)))));
}

bool IsJson(std::string_view type) {
  return type == "application/json" || (type.starts_with("application/") && type.ends_with("+json"));
}

bool IsContentType(const HttpHeader& header) {
  return EqualNames(header.name, "Content-Type");
}

}  // namespace

bool IsLocalhostOrAddress(std::string_view authority) {
  std::string host(HostOf(authority));
  if (EqualNames(host, "localhost")) return true;
  in6_addr number{};
  if (host.size() > 2 && host.front() == '[') {
    return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &number) == 1;
  }
  return inet_pton(AF_INET, host.c_str(), &number) == 1;
}

bool BrowserGuard::IsOwnName(std::string_view authority) const {
  const std::string_view host = HostOf(authority);
  return std::any_of(host_names_.begin(), host_names_.end(), [host](const std::string& name) {
    return name == "*" || (!host.empty() && EqualNames(host, name));
  });
}

std::optional<HttpReply> BrowserGuard::CheckCaller(const HttpRequest& request) const {
  const std::string& authority = request.authority;  // "": no browser leaves it out
  if (!authority.empty() && !IsLocalhostOrAddress(authority) && !IsOwnName(authority)) {
    return HttpReply{kMisdirected, kPlainText,
                     absl::StrCat("Host is ", Shown(authority),
                                  "; limit is localhost, an IP address or a name of listen.http_host_names\n")};
  }
  const std::string_view origin = request.header("Origin");
  if (!IsFromAnotherSite(request) || cors_->Allows(origin)) return std::nullopt;
  return HttpReply{kForbidden, kPlainText,
                   absl::StrCat("the request comes from a web page of another site, whose origin ",
                                origin.empty() ? "it does not tell" : absl::StrCat("is ", Shown(origin)),
                                "; limit is listen.http_cors_origins\n")};
}

std::optional<HttpReply> BrowserGuard::CheckBodyType(const HttpRequest& request, bool binary) const {
  const auto count = std::count_if(request.headers.begin(), request.headers.end(), &IsContentType);
  const std::string_view given = request.header("Content-Type");
  const std::string type = MediaType(given);
  if (count <= 1 && (IsJson(type) || (binary && type == "application/octet-stream"))) return std::nullopt;
  const bool curls = count == 0 || (count == 1 && type == "application/x-www-form-urlencoded");
  if (curls && !ShowsABrowser(request)) return std::nullopt;
  return HttpReply{kUnsupportedMediaType, kPlainText,
                   absl::StrCat("Content-Type is ", count == 0 ? "missing" : Shown(given),
                                "; limit is application/json", binary ? " or application/octet-stream" : "", "\n")};
}

}  // namespace dunlin::server
