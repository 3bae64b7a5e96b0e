// SPDX-License-Identifier: Apache-2.0
// A route that takes a small body, without the serving core's admission: what manages the server or tells of it.
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

// The same, answered later: `respond` is called once, on any thread, possibly within the call. The request is valid
// until then.
using Respond = std::function<void(HttpReply)>;
HttpRoute DeferredDocumentRoute(
    const char* path, std::function<void(const HttpRequest& request, const std::string& body, Respond respond)> answer);

}  // namespace dunlin::server
