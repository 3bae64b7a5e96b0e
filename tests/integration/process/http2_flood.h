// SPDX-License-Identifier: Apache-2.0
// Clients that open HTTP/2 calls and do not see them through, thousands a second, on several connections at once.
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dunlin::integration {

struct FloodCall {
  std::string method = "/grpc.health.v1.Health/Watch";
  std::string message;  // serialised
};

// The frames of one call on a new stream.
struct FloodShape {
  const char* name;
  std::string (*frames)(uint32_t stream, const FloodCall& call);
  bool acknowledges_settings = true;  // false: the server's limit on streams does not bind the client
};

// Names: reset, reset_without_message, reset_half_sent, reset_in_pieces, expired, malformed,
// endless_headers, unacknowledged.
const FloodShape* FindFloodShape(std::string_view name);

// What a client sends before its first call.
std::string FloodPreface(const FloodShape& shape);

struct FloodOptions {
  FloodCall call = {};
  const FloodShape* shape = FindFloodShape("reset");
  int num_connections = 1;
  int calls_per_second = 10000;  // of all connections together
  std::chrono::milliseconds time{2000};
  bool connects_again = false;  // for each connection that was closed
};

struct FloodResult {
  int64_t num_calls = 0;   // that the sockets took
  int num_closed = 0;      // connections that the server closed
  int num_open = 0;        // that were open at the end
  double first_cut_s = 0;  // from the start; 0: none was closed
  double last_cut_s = 0;   // as first_cut_s
};

// address: "127.0.0.1:PORT". Ends when every connection is closed, or the time is over.
FloodResult Flood(const std::string& address, const FloodOptions& options);

}  // namespace dunlin::integration
