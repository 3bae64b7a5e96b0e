// SPDX-License-Identifier: Apache-2.0
// One plain HTTP GET. Thread rule: the io_context's one thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/load/http_target.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

// Calls `done` once, from io: with the body of a 200, at most 16 MiB, or with UNAVAILABLE. Takes at most timeout_ms.
void HttpGet(boost::asio::io_context* io, const HttpTarget& target, int64_t timeout_ms,
             std::function<void(absl::StatusOr<std::string>)> done);

}  // namespace dunlin::tools::load
