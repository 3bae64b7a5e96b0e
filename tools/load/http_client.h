// SPDX-License-Identifier: Apache-2.0
// OpenAI-compatible servers over HTTP/1.1 and server-sent events, so that one program measures Dunlin and its peers.
// Connections are kept alive and reused. Thread rule: all on the io_context's one thread, Cancel too.
#pragma once

#include <memory>

#include "tools/load/client.h"
#include "tools/load/http_target.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

// io outlives the client. Output tokens are counted from `usage` where the server sends it; else as max_tokens when the
// finish reason is "length"; else as the chunks that carry text.
std::unique_ptr<LoadClient> MakeHttpClient(boost::asio::io_context* io, const HttpTarget& target,
                                           const RequestOptions& options);

}  // namespace dunlin::tools::load
