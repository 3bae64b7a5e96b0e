// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/request_head.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::iequals;

std::string ToString(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// A body's length must be given once, in one way, or not at all.
std::optional<HttpReply> CheckBodyLength(const HttpParsedHead& head) {
  const auto num_lengths = head.count(http::field::content_length);
  if (num_lengths > 1 || head[http::field::content_length].find(',') != boost::beast::string_view::npos) {
    return TextReply(400, "Content-Length is given more than once");
  }
  const auto num_codings = head.count(http::field::transfer_encoding);
  if (num_codings == 0) return std::nullopt;
  if (num_codings > 1 || num_lengths > 0) return TextReply(400, "the length of the body is given more than once");
  if (head.version() == kHttp10) return TextReply(400, "HTTP/1.0 has no Transfer-Encoding");
  if (!iequals(head[http::field::transfer_encoding], "chunked")) {
    return TextReply(501, "Transfer-Encoding is not \"chunked\"");
  }
  return std::nullopt;
}

}  // namespace

HttpReply TextReply(int status, const std::string& message) {
  return {status, kPlainText, message + "\n"};
}

HttpReply RefusalOf(error_code error, bool in_request_line) {
  if (error == http::error::header_limit && in_request_line) {
    return TextReply(414, absl::StrCat("the request line is too long; limit is ", kMaxHttpTargetBytes, " bytes"));
  }
  if (error == http::error::header_limit) {
    return TextReply(431, absl::StrCat("the header is too long; limit is ", kMaxHttpHeaderBytes, " bytes"));
  }
  if (error == http::error::body_limit) return TextReply(413, "the body is too long");
  if (error == http::error::bad_version)
    return TextReply(400, "the request line is malformed, or the HTTP version is not 1.0 or 1.1");
  return TextReply(400, error.message());
}

std::optional<HttpReply> CheckHead(const HttpParsedHead& head) {
  if (head.target().size() > kMaxHttpTargetBytes) {
    return TextReply(414,
                     absl::StrCat("the target has ", head.target().size(), " bytes; limit is ", kMaxHttpTargetBytes));
  }
  if (std::optional<HttpReply> refusal = CheckBodyLength(head)) return refusal;
  if (head.count(http::field::host) > 1) return TextReply(400, "Host is given more than once");
  if (head.method() == http::verb::unknown) return TextReply(501, "the method is unknown");
  const auto expected = head[http::field::expect];
  if (!expected.empty() && !iequals(expected, "100-continue")) {
    return TextReply(417, "Expect is not \"100-continue\"");
  }
  return std::nullopt;
}

HttpRequest RequestOf(const HttpParsedHead& head) {
  constexpr std::string_view kScheme = "http://";
  HttpRequest request;
  request.method = ToString(head.method_string());
  std::string_view target(head.target().data(), head.target().size());
  if (target.substr(0, kScheme.size()) == kScheme) {  // the absolute form, as sent to proxies
    const size_t path = target.find('/', kScheme.size());
    request.authority = target.substr(kScheme.size(), path - kScheme.size());
    target = path == target.npos ? std::string_view("/") : target.substr(path);
  }
  const size_t query = target.find('?');
  request.path = target.substr(0, query);
  if (query != target.npos) request.query = target.substr(query + 1);
  for (const auto& field : head) {
    request.headers.push_back({ToString(field.name_string()), ToString(field.value())});
  }
  if (request.authority.empty()) request.authority = request.header("Host");
  return request;
}

}  // namespace dunlin::server
