// SPDX-License-Identifier: Apache-2.0
// The answers to requests that no route takes, and the form of the transport's refusals. Pure functions, any thread.
#pragma once

#include "server/transport/http/cors.h"
#include "server/transport/http/http_message.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// A refusal in the form of the route's API. A null route, or one without a form: as it is.
HttpReply InTheFormOf(const HttpRoute* route, HttpReply reply);

// OPTIONS, and 404, 405 or 426 in the form of the API that the client means: a 404 names the route that may have been
// meant, a 426 says that a path is no WebSocket's.
// REQUIRES: match.route is null, or match.malformed.
HttpReply UnroutedReply(const HttpRouteTable& routes, const CorsPolicy& cors, const HttpRequest& request,
                        const HttpRouteTable::Match& match);

}  // namespace dunlin::server
