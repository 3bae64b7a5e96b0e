// SPDX-License-Identifier: Apache-2.0
// The HTTP port: one thread, HTTP/1.0 and 1.1, bounded in connections, header and body size, and time for each of them.
// Thread rule: Start and the destructor on one thread; the rest from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/connection_counts.h"
#include "server/transport/http/http_route.h"
#include "server/transport/http/http_timeouts.h"
#include "server/transport/tls/certificate_store.h"

namespace dunlin::server {

// What this port speaks, as ALPN names it.
inline constexpr char kHttpApplicationProtocol[] = "http/1.1";

struct HttpServerOptions {
  ConnectionLimits connections;
  std::vector<HttpRoute> routes;
  std::vector<std::string> cors_origins;  // "https://chat.example", or "*" for all (cors.h)
  std::vector<std::string> host_names;    // BrowserGuard's
  // Whether calls need a key, so that browsers need no guard; null: they do not.
  std::function<bool()> has_keys = nullptr;
  HttpTimeouts timeouts;
  HttpObserver on_response = nullptr;              // may be null
  const CertificateStore* certificates = nullptr;  // TLS with its certificate; outlives the server; null: plain HTTP
};

class HttpServer {
 public:
  // Binds "host:port" (an IP address, [v6] in brackets, or localhost; port 0 picks a free port) and serves until
  // destroyed. Connections beyond the limits are closed immediately; without free descriptors, accepting pauses.
  // Errors: INVALID_ARGUMENT for a malformed address, UNAVAILABLE if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, HttpServerOptions options);
  // REQUIRES: no handler is between Start and OnDone.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Sends a ping through the HTTP thread unless one is still on its way; returns how many have come through so far. One
  // thread.
  uint64_t Ping();

  // From now on a connection ends with its response; those that wait for a further request are closed. New ones are
  // still accepted, each for one request.
  void StartDraining();
  // Connections with an exchange in progress are closed once this time has passed.
  void AbortExchangesAfter(std::chrono::milliseconds grace);

  // "127.0.0.1:PORT", with the actual port.
  const std::string& bound_address() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
