// SPDX-License-Identifier: Apache-2.0
// One HTTP/1.1 request and its response, over a new or a kept-alive connection. http_exchange.cc is the only file here
// that includes Boost.Beast.
// Thread rule: everything on the io_context's one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/load/http_target.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

// Connections to one server. Finished exchanges leave theirs here; the one left last is reused first.
class HttpConnections {
 public:
  HttpConnections(boost::asio::io_context* io, const HttpTarget& target);  // io outlives this
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // Opens and closes a connection; blocks for at most timeout_ms. Errors: UNAVAILABLE.
  absl::Status Probe(int64_t timeout_ms) const;
  const HttpTarget& target() const;

  struct State;  // of http_exchange.cc
  State* state() const { return state_.get(); }

 private:
  const std::unique_ptr<State> state_;
};

struct HttpResponseHead {
  unsigned status = 0;
  bool has_retry_after = false;
};

enum class HttpFailure : uint8_t {
  kTransport,  // no connection, a reset, or bytes that are not HTTP
  kTruncated,  // the connection closed within the response
  kTimedOut,
};

// What an exchange reports. OnEnd, OnFailure or a false from OnBody is the last call, and happens once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Bytes of the body, in order, split anywhere. False closes the connection and ends the exchange.
  virtual bool OnBody(const HttpResponseHead& head, std::string_view bytes) = 0;
  // The response is complete. True: the connection may be reused.
  virtual bool OnEnd(const HttpResponseHead& head) = 0;
  virtual void OnFailure(HttpFailure failure, const std::string& message) = 0;
};

class HttpExchange {
 public:
  // Sends `request` (see PostRequest, GetRequest); never blocks. A kept connection that its server closed while it was
  // idle is replaced by a new one. timeout_ms bounds the whole exchange; 0: unbounded.
  static std::shared_ptr<HttpExchange> Start(std::shared_ptr<HttpConnections> connections, std::string request,
                                             int64_t timeout_ms, std::shared_ptr<HttpHandler> handler);
  virtual ~HttpExchange() = default;

  // Closes the connection, the only way to cancel in HTTP/1.1; the handler then gets a failure.
  virtual void Cancel() = 0;
};

// The bytes of a request.
std::string GetRequest(const HttpTarget& target);  // asks the server to close the connection afterwards
std::string PostRequest(const HttpTarget& target, const std::string& json_body);

}  // namespace dunlin::tools::load
