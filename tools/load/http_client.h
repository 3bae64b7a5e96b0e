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

// io outlives the client. An event is a message with tokens when it carries token ids, which options.token_ids asks
// for; of servers that send none, when it carries text, reasoning or tool calls, and counts as one token. Output tokens
// of a response are those of `usage` where the server sends it; else max_tokens when the finish reason is "length";
// else those of the messages.
std::unique_ptr<LoadClient> MakeHttpClient(boost::asio::io_context* io, const HttpTarget& target,
                                           const RequestOptions& options);

}  // namespace dunlin::tools::load
