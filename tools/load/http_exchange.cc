// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_exchange.h"

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/load/client_socket.h"

namespace dunlin::tools::load {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Error = boost::system::error_code;

// Between two attempts to reach a server that is starting.
constexpr auto kConnectGap = std::chrono::milliseconds(50);
constexpr size_t kLastChunkBytes = 5;  // "0", and the ends of its line and of an empty one

struct HttpConnections::State {
  std::unique_ptr<ClientSocket> TakeIdle() {
    if (idle.empty()) return nullptr;
    std::unique_ptr<ClientSocket> socket = std::move(idle.back());
    idle.pop_back();
    return socket;
  }

  asio::io_context* const io;
  const HttpTarget target;
  std::vector<std::unique_ptr<ClientSocket>> idle;
};

HttpConnections::HttpConnections(asio::io_context* io, const HttpTarget& target) : state_(new State{io, target, {}}) {}

HttpConnections::~HttpConnections() = default;

absl::Status HttpConnections::WaitUntilReachable(int64_t timeout_ms) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    asio::io_context io;
    ClientSocket socket(&io, state_->target);
    Error error = asio::error::timed_out;
    socket.Connect([&error](Error result) { error = result; });
    io.run_until(deadline);
    if (!error) return absl::OkStatus();
    const bool starting = error == asio::error::connection_refused;
    if (!starting || std::chrono::steady_clock::now() + kConnectGap >= deadline) {
      return absl::UnavailableError(error.message());
    }
    std::this_thread::sleep_for(kConnectGap);
  }
}

const HttpTarget& HttpConnections::target() const {
  return state_->target;
}

namespace {

// Owned by its pending operations.
class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpConnections> connections, std::string request, std::shared_ptr<HttpHandler> handler)
      : connections_(std::move(connections)),
        request_(std::move(request)),
        handler_(std::move(handler)),
        deadline_(*connections_->state()->io) {}

  void Begin(int64_t timeout_ms) {
    if (timeout_ms > 0) {
      deadline_.expires_after(std::chrono::milliseconds(timeout_ms));
      deadline_.async_wait([self = shared_from_this()](Error error) {
        if (error || self->ended_) return;
        self->timed_out_ = true;
        self->Cancel();
      });
    }
    socket_ = connections_->state()->TakeIdle();
    reused_ = socket_ != nullptr;
    if (reused_) return Send();
    Connect();
  }

  void Cancel() override {
    closed_here_ = true;
    if (!ended_ && socket_ != nullptr) socket_->Close();
  }

 private:
  void Connect() {
    reused_ = false;
    socket_ = std::make_unique<ClientSocket>(connections_->state()->io, connections_->target());
    socket_->Connect([self = shared_from_this()](Error error) {
      if (error) return self->Fail(HttpFailure::kTransport, error);
      self->Send();
    });
  }

  void Send() {
    socket_->Write(asio::buffer(request_), [self = shared_from_this()](Error error) {
      if (error && self->reused_ && !self->closed_here_) return self->Connect();
      if (error) return self->Fail(HttpFailure::kTransport, error);
      self->parser_.emplace();
      self->parser_->eager(true);
      // A number: Boost 1.74 refuses every Content-Length when there is no limit.
      self->parser_->body_limit(std::numeric_limits<uint64_t>::max());
      self->Read();
    });
  }

  void Read() {
    socket_->ReadSome(asio::buffer(chunk_),
                      [self = shared_from_this()](Error error, size_t size) { self->OnRead(error, size); });
  }

  void OnRead(Error error, size_t size) {
    const bool closed = error == asio::error::eof || error == asio::error::connection_reset;
    // The server closed a kept connection while it was idle: it has not seen this request.
    if (closed && reused_ && !closed_here_ && !parser_->got_some() && unparsed_.empty()) return Connect();
    if (error && error != asio::error::eof) return Fail(HttpFailure::kTransport, error);
    unparsed_.append(chunk_.data(), size);
    Error parse_error;
    while (!parse_error && !unparsed_.empty() && !parser_->is_done()) {
      // As much is still to come of every chunked body; with less, Boost 1.74 may end the process by an assertion.
      if (parser_->is_header_done() && parser_->chunked() && unparsed_.size() < kLastChunkBytes) break;
      unparsed_.erase(0, parser_->put(asio::buffer(unparsed_), parse_error));
    }
    if (parse_error && parse_error != http::error::need_more) return Fail(HttpFailure::kTransport, parse_error);
    if (!parser_->is_header_done()) {
      if (error && !parser_->got_some() && unparsed_.empty()) {
        return Fail(HttpFailure::kTransport, http::make_error_code(http::error::end_of_stream));
      }
      return error ? Fail(HttpFailure::kTruncated, http::make_error_code(http::error::partial_message)) : Read();
    }
    if (!DeliverBody()) return;
    if (error && !parser_->is_done()) {
      Error eof_error;
      parser_->put_eof(eof_error);
      if (eof_error) return Fail(HttpFailure::kTruncated, eof_error);
    }
    if (parser_->is_done()) return End();
    Read();
  }

  // Passes on what was parsed. False: the exchange is over.
  bool DeliverBody() {
    head_.status = parser_->get().result_int();
    head_.has_retry_after = parser_->get().count(http::field::retry_after) > 0;
    std::string body = std::exchange(parser_->get().body(), {});
    if (body.empty() || handler_->OnBody(head_, body)) return true;
    Close();
    return false;
  }

  void End() {
    const bool reusable = parser_->keep_alive() && unparsed_.empty();
    std::unique_ptr<ClientSocket> socket = std::move(socket_);
    Close();
    if (handler_->OnEnd(head_) && reusable) connections_->state()->idle.push_back(std::move(socket));
  }

  void Fail(HttpFailure failure, Error error) {
    Close();
    handler_->OnFailure(timed_out_ ? HttpFailure::kTimedOut : failure, error.message());
  }

  void Close() {
    ended_ = true;
    deadline_.cancel();
    socket_.reset();
  }

  const std::shared_ptr<HttpConnections> connections_;
  const std::string request_;
  const std::shared_ptr<HttpHandler> handler_;
  asio::steady_timer deadline_;
  std::unique_ptr<ClientSocket> socket_;
  std::optional<http::response_parser<http::string_body>> parser_;
  std::array<char, 4096> chunk_ = {};
  std::string unparsed_;
  HttpResponseHead head_;
  bool reused_ = false;  // the connection served another exchange before
  bool timed_out_ = false;
  bool closed_here_ = false;
  bool ended_ = false;
};

std::string KeyLine(const HttpTarget& target) {
  return target.api_key.empty() ? "" : absl::StrCat("Authorization: Bearer ", target.api_key, "\r\n");
}

}  // namespace

std::shared_ptr<HttpExchange> HttpExchange::Start(std::shared_ptr<HttpConnections> connections, std::string request,
                                                  int64_t timeout_ms, std::shared_ptr<HttpHandler> handler) {
  auto exchange = std::make_shared<Exchange>(std::move(connections), std::move(request), std::move(handler));
  exchange->Begin(timeout_ms);
  return exchange;
}

std::string GetRequest(const HttpTarget& target) {
  return absl::StrCat("GET ", target.path, " HTTP/1.1\r\nHost: ", target.host, "\r\n", KeyLine(target),
                      "Connection: close\r\n\r\n");
}

std::string PostRequest(const HttpTarget& target, const std::string& json_body) {
  return absl::StrCat("POST ", target.path, " HTTP/1.1\r\nHost: ", target.host, "\r\n", KeyLine(target),
                      "Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: ",
                      json_body.size(), "\r\n\r\n", json_body);
}

}  // namespace dunlin::tools::load
