// SPDX-License-Identifier: Apache-2.0
// Puts the check of a caller's key before every route of an HTTP port. Guards run on the HTTP thread.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/access/access_control.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// Sets the guard of every route: the key in "Authorization: Bearer KEY", or in "x-api-key", against its endpoint's row.
// A refusal is rendered by HttpRoute::refusal, with WWW-Authenticate where a key is missing. What the request says of
// the key is overwritten. access and endpoints outlive the routes. Errors: INTERNAL, naming a route that has no row in
// the table.
absl::Status GuardRoutes(const AccessControl& access, const EndpointTable& endpoints, std::vector<HttpRoute>* routes);

}  // namespace dunlin::server
