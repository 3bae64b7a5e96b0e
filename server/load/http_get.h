// One plain HTTP GET. Thread rule: the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/load/http_target.h"

namespace dunlin::server::load {

// Calls `done` once, from io: the body of a 200, at most 16 MiB; else UNAVAILABLE. At most timeout_ms.
void HttpGet(boost::asio::io_context* io, const HttpTarget& target, int64_t timeout_ms,
             std::function<void(absl::StatusOr<std::string>)> done);

}  // namespace dunlin::server::load
