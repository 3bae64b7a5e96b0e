// One streamed completion over HTTP: connect or take a kept connection, send, read events until the body ends.
// Owned by the handlers under way. Thread rule: the io_context's one thread.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/load/client.h"
#include "server/load/http_target.h"
#include "server/load/openai.h"
#include "server/load/sse_parser.h"

namespace dunlin::server::load {

// Open connections that nobody uses; the last one given back is the first to be used again.
class ConnectionPool {
 public:
  ConnectionPool(boost::asio::io_context* io, HttpTarget target) : io_(io), target_(std::move(target)) {}

  // A kept connection; null when there is none.
  std::unique_ptr<boost::beast::tcp_stream> Take();
  void GiveBack(std::unique_ptr<boost::beast::tcp_stream> stream) { idle_.push_back(std::move(stream)); }
  std::unique_ptr<boost::beast::tcp_stream> New() { return std::make_unique<boost::beast::tcp_stream>(*io_); }
  const HttpTarget& target() const { return target_; }
  boost::asio::io_context* io() const { return io_; }

 private:
  boost::asio::io_context* const io_;
  const HttpTarget target_;
  std::vector<std::unique_ptr<boost::beast::tcp_stream>> idle_;
};

class HttpRequest final : public ActiveRequest, public std::enable_shared_from_this<HttpRequest> {
 public:
  static std::shared_ptr<HttpRequest> Start(std::shared_ptr<ConnectionPool> pool, std::string body, int32_t max_tokens,
                                            int64_t timeout_ms, std::shared_ptr<Call> call);
  HttpRequest(std::shared_ptr<ConnectionPool> pool, std::string body, int32_t max_tokens, std::shared_ptr<Call> call);

  // Closes the connection: all that HTTP/1.1 has for it.
  void Cancel() override;

 private:
  using Error = boost::beast::error_code;

  void Begin(int64_t timeout_ms);
  void Connect();
  void Send();
  void ReadHeader();
  void OnHeader(Error error);
  void ReadBody();
  void OnBody(Error error);
  // Ends the request at an event that is an error; false then.
  bool TakeEvents(const std::string& bytes);
  void EndOfBody();
  void Fail(Ending ending, const std::string& reason, const std::string& message, bool retry_info = false);
  void FailTransport(Error error);

  const std::shared_ptr<ConnectionPool> pool_;
  const int32_t max_tokens_;
  const std::shared_ptr<Call> call_;
  boost::asio::steady_timer deadline_;
  bool timed_out_ = false;
  bool ended_ = false;
  bool kept_connection_ = false;  // was used before: its server may have closed it meanwhile
  std::unique_ptr<boost::beast::tcp_stream> stream_;
  boost::beast::http::request<boost::beast::http::string_body> request_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser_;
  SseParser events_;
  bool saw_done_ = false;
  bool saw_usage_ = false;
  std::string finish_reason_;
};

}  // namespace dunlin::server::load
