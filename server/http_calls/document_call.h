// SPDX-License-Identifier: Apache-2.0
// A route that takes a small body and is answered at once, on the HTTP thread, without the serving core: what manages
// the server or tells of it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "server/transport/http/http_message.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// As much as a header: such a body is charged to nobody, and a connection that holds one costs little more than
// another.
inline constexpr size_t kDocumentBodyBytesMax = size_t{16} * 1024;

// POST `path` with a body of at most kDocumentBodyBytesMax, or with none. `answer` must not block.
HttpRoute DocumentRoute(const char* path,
                        std::function<HttpReply(const HttpRequest& request, const std::string& body)> answer);

}  // namespace dunlin::server
