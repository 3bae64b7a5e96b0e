// SPDX-License-Identifier: Apache-2.0
// Keeps foreign web pages from a server that needs no keys. A page runs in the browser of a user who can reach the
// server, and can make it send requests there: under a name of the page's own that resolves to the server
// (DNS rebinding), which the browser takes for the page's own site, so that it reads the answers; and across sites,
// where it cannot read them but starts work. What browsers tell of such requests is their Host, Origin, Sec-Fetch-Site
// and Content-Type, none of which a page can set at will. Clients that are no browsers need none of them. Pure
// functions. Const after construction; any thread. Source: the Fetch standard, "CORS protocol"; W3C Fetch Metadata.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/transport/http/cors.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

// Whether the authority of a request, with or without a port, is localhost or an IP address: those mean the machine
// that they name, whoever says so.
bool IsLocalhostOrAddress(std::string_view authority);

class BrowserGuard {
 public:
  // host_names: by which clients may call besides; "*": any. cors: whose pages may call; outlives this object.
  BrowserGuard(std::vector<std::string> host_names, const CorsPolicy* cors)
      : host_names_(std::move(host_names)), cors_(cors) {}

  // Why the request is refused whatever its path: 421 for a name that is not the server's, 403 for a page of another
  // site whose origin is not allowed.
  std::optional<HttpReply> CheckCaller(const HttpRequest& request) const;
  // 415 unless the body is JSON (or application/octet-stream, where `binary`), which a page of another site cannot send
  // without asking first. A body without a type, or of the type that curl gives it, is also taken from a client that
  // shows no sign of being a browser.
  std::optional<HttpReply> CheckBodyType(const HttpRequest& request, bool binary) const;

 private:
  bool IsOwnName(std::string_view authority) const;

  const std::vector<std::string> host_names_;
  const CorsPolicy* const cors_;
};

}  // namespace dunlin::server
