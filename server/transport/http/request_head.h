// SPDX-License-Identifier: Apache-2.0
// From a parsed header to an HttpRequest, or to the status that refuses it. What decides where a body ends is read more
// strictly than the parser does it, so that no proxy in front can see another request than this server (request
// smuggling). Pure functions. Source: RFC 9110, RFC 9112.
#pragma once

#include <boost/beast/http.hpp>
#include <optional>
#include <string>

#include "server/transport/http/growing_body.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

inline constexpr uint32_t kMaxHttpHeaderBytes = 16 * 1024;
inline constexpr size_t kMaxHttpTargetBytes = size_t{8} << 10;

using HttpParser = boost::beast::http::request_parser<GrowingBody>;
using HttpParsedHead = HttpParser::value_type;

// The text/plain reply "message\n".
HttpReply TextReply(int status, const std::string& message);

// The reply to bytes that are no request. in_request_line: the error came before its end.
HttpReply RefusalOf(boost::beast::error_code error, bool in_request_line);

// Why the request is refused whatever its path: 400, 414, 417 or 501.
std::optional<HttpReply> CheckHead(const HttpParsedHead& head);

// REQUIRES: CheckHead refuses nothing.
HttpRequest RequestOf(const HttpParsedHead& head);

}  // namespace dunlin::server
