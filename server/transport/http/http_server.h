// SPDX-License-Identifier: Apache-2.0
// The HTTP port: one thread, HTTP/1.1, bounded in connections, header size and time per request.
// Thread rule: Start and the destructor on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/access/connection_counts.h"
#include "server/transport/http/routes.h"

namespace dunlin::server {

inline constexpr uint32_t kMaxHttpHeaderBytes = 16 * 1024;
// For a client to send a request header, read a response or stay idle.
inline constexpr std::chrono::milliseconds kHttpTimeout{5000};

class HttpServer {
 public:
  // Binds "host:port" (an IP address, [v6] in brackets, or localhost; port 0 picks a free port) and serves until
  // destroyed. Connections beyond the limits are closed immediately; without free descriptors, accepting pauses.
  // Errors: INVALID_ARGUMENT for a malformed address, UNAVAILABLE if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, const ConnectionLimits& limits,
                                                           HttpSources sources,
                                                           std::chrono::milliseconds timeout = kHttpTimeout);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Sends a ping through the HTTP thread unless one is still on its way; returns how many have come through so far. One
  // thread.
  uint64_t Ping();

  // "127.0.0.1:PORT", with the actual port.
  const std::string& bound_address() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
