// SPDX-License-Identifier: Apache-2.0
// One HTTP connection: reads a request, has it answered, and goes on with the next one while the client keeps the
// connection open. One request at a time: what a client sends ahead (pipelining) waits in a bounded buffer.
//
//   kHeader      a header comes in whole within HttpTimeouts::read; before its first byte, within HttpTimeouts::idle.
//   On a
//                new connection the first byte comes within HttpTimeouts::read, the TLS handshake included
//   kBody        its body comes in, to a handler that has admitted it: at least 16 KB/s after HttpTimeouts::read, and
//                without a pause longer than that
//   kResponding  reading goes on, which shows when the client goes away
//   kLingering   the last response is sent; input is thrown away, so that it does not reset the connection before the
//                client has read the response
//
// Thread rule: the HTTP thread. Ownership: its pending operations and the exchange of its handler.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/error.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/transport/http/browser_guard.h"
#include "server/transport/http/byte_stream.h"
#include "server/transport/http/cors.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/http/http_output.h"
#include "server/transport/http/http_route.h"
#include "server/transport/http/http_timeouts.h"
#include "server/transport/http/request_head.h"

namespace dunlin::server {

// What the connections of a server share.
struct HttpShared {
  const HttpRouteTable routes;
  const CorsPolicy cors;
  const BrowserGuard browsers;           // knows cors
  const std::function<bool()> has_keys;  // HttpServerOptions::has_keys
  const HttpTimeouts timeouts;
  const HttpObserver on_response;
  boost::asio::io_context* const io;
  bool draining = false;  // responses end their connections
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  // peer: the client's address. shared outlives the connection. Calls on_closed when the connection is closed, at the
  // latest when it is destroyed: an exchange may hold it for longer, on another thread.
  HttpConnection(std::unique_ptr<ByteStream> stream, std::string peer, HttpShared* shared,
                 std::function<void(HttpConnection*)> on_closed);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void Start();
  // Called a few times a second: time limits, and the idle text of streams.
  void Sweep(Clock::time_point now);
  // Closes the connection if it waits for a request of which nothing has come.
  void CloseIfIdle();
  // Closes it at once if it has a handler, which is told.
  void AbortIfAdmitted();

  // Of the exchange with that number; without effect for an earlier one.
  void Respond(uint64_t exchange, HttpReply reply);
  void Begin(uint64_t exchange, HttpReply head, std::string idle_text);
  void Write(uint64_t exchange, const std::string& bytes);
  void End(uint64_t exchange, const std::string& bytes);
  void AbortExchange(uint64_t exchange);
  // Any thread.
  boost::asio::io_context* io() const { return shared_->io; }

 private:
  enum class State : uint8_t { kHeader, kBody, kResponding, kLingering, kClosed };

  void AwaitRequest();
  void Read();
  void OnRead(boost::beast::error_code error, size_t size);
  void OnInputEnd();
  void OnTimeout();
  void Parse();
  // Gives `input_` to the parser: the bytes that it took. *error: the parser's, also for what it asserts.
  size_t Put(boost::beast::error_code* error);
  // Answers the request, or opens its handler.
  void OnHeader();
  void OpenHandler(const HttpRoute& route);
  // Tells the handler what of the body has come since the last call, and gives its client the time for more. False if
  // it has been refused.
  bool OnBody();
  void OnRequest();
  // Why the request is refused for the browser that may have sent it.
  std::optional<HttpReply> CheckBrowser() const;
  // Answers a request whose body, if it has one, has not been read.
  void Answer(HttpReply reply);
  // Answers bytes that are no request, or did not come in time.
  void Refuse(const HttpReply& reply);
  // What lets a page read the reply, by what of the header has been parsed.
  std::vector<HttpHeader> CorsHeaders() const;
  // A refusal as the route's clients expect it.
  HttpReply RefusalOfRoute(HttpReply reply) const;
  void SendWhole(HttpReply reply);
  // Adds the headers that belong to the connection and the request.
  void AppendHeaders(HttpReply* reply);

  void Flush();
  void OnWritten(boost::beast::error_code error);
  // Ends the exchange once its response is sent or dropped.
  void FinishIfOver();
  bool IsCurrent(uint64_t exchange) const { return exchange == exchange_ && started_; }
  // The client is gone.
  void Break();
  void Abort();
  void Linger();
  void Close();

  const std::unique_ptr<ByteStream> stream_;
  const std::string peer_;
  HttpShared* const shared_;
  const std::function<void(HttpConnection*)> on_closed_;

  State state_ = State::kHeader;
  std::optional<Clock::time_point> deadline_ = std::nullopt;  // of the state
  bool reading_ = false;
  bool input_ended_ = false;  // the client sends nothing more
  bool broken_ = false;       // nothing is sent any more
  bool any_served_ = false;
  std::array<char, 4096> incoming_;
  std::string input_;  // read and not parsed

  // The request that comes in.
  std::optional<HttpParser> parser_;
  bool any_parsed_ = false;  // the request line
  size_t header_bytes_ = 0;  // parsed of the request's header, line ends included
  HttpRequest request_;
  std::vector<HttpHeader> cors_headers_;  // of every reply to it
  const HttpRoute* route_ = nullptr;      // null before the header is read, and if no route has the path
  size_t body_bytes_ = 0;                 // that the handler was told of

  // The exchange.
  std::shared_ptr<HttpHandler> handler_;  // from the end of the header to OnDone; null if the route has none
  bool started_ = false;                  // from Start to OnDone
  uint64_t exchange_ = 0;                 // counts exchanges with handlers
  std::string idle_text_;
  Clock::time_point last_write_;
  bool write_pending_ = false;  // the handler's Write is in output_

  HttpOutput output_;
  std::string outgoing_;  // of the outstanding write
  bool writing_ = false;
  bool write_outgoing_ = false;  // the handler's Write is in outgoing_
  size_t lingered_bytes_ = 0;
};

}  // namespace dunlin::server
