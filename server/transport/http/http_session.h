// SPDX-License-Identifier: Apache-2.0
// One HTTP connection: reads a request and answers it, repeatedly while the client keeps the connection alive.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "server/transport/http/routes.h"

namespace dunlin::server {

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  // timeout: for a request header to come in whole, or a response to go out. Calls on_closed when destroyed. sources
  // outlive the session.
  HttpSession(boost::asio::ip::tcp::socket socket, const HttpSources& sources, std::chrono::milliseconds timeout,
              std::function<void()> on_closed);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void Read();

 private:
  void OnRead(boost::beast::error_code error);
  void Answer(HttpReply reply, bool head_only, bool keep_alive, unsigned version);
  void Close();

  boost::beast::tcp_stream stream_;
  const HttpSources& sources_;
  const std::chrono::milliseconds timeout_;
  const std::function<void()> on_closed_;
  boost::beast::flat_buffer buffer_;
  std::unique_ptr<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::unique_ptr<boost::beast::http::response<boost::beast::http::string_body>> response_;
};

}  // namespace dunlin::server
