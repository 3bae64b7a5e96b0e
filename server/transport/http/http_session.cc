// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/http_session.h"

#include <chrono>
#include <string>
#include <utility>

#include "server/transport/http/http_server.h"

namespace dunlin::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

// The status for a request that could not be read; 0 if the peer closed the connection.
int StatusForReadError(error_code error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  if (error == boost::beast::error::timeout) return 408;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, const HttpSources& sources,
                         std::chrono::milliseconds timeout, std::function<void()> on_closed)
    : stream_(std::move(socket)), sources_(sources), timeout_(timeout), on_closed_(std::move(on_closed)) {}

HttpSession::~HttpSession() {
  on_closed_();
}

void HttpSession::Read() {
  parser_ = std::make_unique<http::request_parser<http::empty_body>>();
  parser_->header_limit(kMaxHttpHeaderBytes);
  stream_.expires_after(timeout_);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](error_code error, std::size_t) { self->OnRead(error); });
}

void HttpSession::OnRead(error_code error) {
  constexpr unsigned kHttp11 = 11;
  if (error) {
    const int status = StatusForReadError(error);
    if (status == 0) return Close();
    return Answer({status, "text/plain; charset=utf-8", error.message() + "\n"}, false, false, kHttp11);
  }
  const auto& request = parser_->get();
  // A body would have to be read before the next request, and no route accepts one.
  const bool has_body = request.chunked() || parser_->content_length().value_or(0) > 0;
  if (has_body)
    return Answer({413, "text/plain; charset=utf-8", "request bodies are not supported\n"}, false, false,
                  request.version());
  Answer(Route(sources_, View(request.method_string()), View(request.target())), request.method() == http::verb::head,
         request.keep_alive(), request.version());
}

void HttpSession::Answer(HttpReply reply, bool head_only, bool keep_alive, unsigned version) {
  response_ = std::make_unique<http::response<http::string_body>>();
  response_->version(version);
  response_->result(static_cast<unsigned>(reply.status));
  response_->set(http::field::content_type, reply.content_type);
  response_->keep_alive(keep_alive);
  response_->body() = std::move(reply.body);
  response_->prepare_payload();
  if (head_only) response_->body().clear();  // Content-Length stays that of the GET answer
  stream_.expires_after(timeout_);
  http::async_write(stream_, *response_, [self = shared_from_this(), keep_alive](error_code error, std::size_t) {
    if (error || !keep_alive) return self->Close();
    self->Read();
  });
}

void HttpSession::Close() {
  error_code ignored;
  stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
}

}  // namespace dunlin::server
