// SPDX-License-Identifier: Apache-2.0
// The exchange that a handler holds: passes each call to its connection on the HTTP thread. Thread rule:
// HttpExchange's.
#pragma once

#include <boost/asio/post.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/transport/http/http_connection.h"

namespace dunlin::server {

class PostedExchange final : public HttpExchange {
 public:
  // number: as HttpConnection counts its exchanges.
  PostedExchange(std::shared_ptr<HttpConnection> connection, uint64_t number, HttpRequest request)
      : connection_(std::move(connection)), number_(number), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }

  void Respond(HttpReply reply) override {
    Post([number = number_, reply = std::move(reply)](HttpConnection* connection) mutable {
      connection->Respond(number, std::move(reply));
    });
  }
  void Begin(HttpReply head, std::string idle_text) override {
    Post([number = number_, head = std::move(head), text = std::move(idle_text)](HttpConnection* connection) mutable {
      connection->Begin(number, std::move(head), std::move(text));
    });
  }
  void Write(std::string bytes) override {
    Post(
        [number = number_, bytes = std::move(bytes)](HttpConnection* connection) { connection->Write(number, bytes); });
  }
  void End(std::string bytes) override {
    Post([number = number_, bytes = std::move(bytes)](HttpConnection* connection) { connection->End(number, bytes); });
  }
  void Abort() override {
    Post([number = number_](HttpConnection* connection) { connection->AbortExchange(number); });
  }

 private:
  template <class Call>
  void Post(Call call) {
    boost::asio::post(*connection_->io(),
                      [connection = connection_, call = std::move(call)]() mutable { call(connection.get()); });
  }

  const std::shared_ptr<HttpConnection> connection_;
  const uint64_t number_;
  const HttpRequest request_;
};

}  // namespace dunlin::server
