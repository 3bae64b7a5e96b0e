// OpenAI-compatible servers over HTTP/1.1 and server-sent events, so that peers are measured by the same program.
// Connections are kept and used again. Thread rule: all on the io_context's one thread; Cancel too.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "server/load/client.h"
#include "server/load/http_target.h"

namespace dunlin::server::load {

// io outlives the client. Tokens: `usage` where the server sends it; else, when the answer ended for its length,
// max_tokens; else the chunks with text.
std::unique_ptr<LoadClient> MakeHttpClient(boost::asio::io_context* io, const HttpTarget& target,
                                           const RequestOptions& options);

}  // namespace dunlin::server::load
