// SPDX-License-Identifier: Apache-2.0
// How long a connection of the HTTP port waits for its client. Plain data.
#pragma once

#include <chrono>

namespace dunlin::server {

struct HttpTimeouts {
  std::chrono::milliseconds read{5000};          // for a request header in whole, and for the first bytes of a body
  std::chrono::milliseconds idle{60000};         // between two requests
  std::chrono::milliseconds write{30000};        // for a client to take a whole response
  std::chrono::milliseconds stream_idle{15000};  // then a stream sends its idle text; 0: never
};

}  // namespace dunlin::server
