// SPDX-License-Identifier: Apache-2.0
#include "tools/load/client_socket.h"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

namespace dunlin::tools::load {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct ClientSocket::State {
  State(asio::io_context* io, HttpTarget to) : target(std::move(to)), socket(*io) {
    if (target.tls == nullptr) return;
    tls.emplace(socket, *target.tls);
    error_code ignored;
    tls->set_verify_callback(asio::ssl::host_name_verification(target.name), ignored);
    // An address is no name (RFC 6066).
    asio::ip::make_address(target.name, ignored);
    if (ignored) SSL_set_tlsext_host_name(tls->native_handle(), target.name.c_str());
  }

  const HttpTarget target;
  tcp::socket socket;
  std::optional<asio::ssl::stream<tcp::socket&>> tls;  // over the socket
};

ClientSocket::ClientSocket(asio::io_context* io, const HttpTarget& target) : state_(new State(io, target)) {}

ClientSocket::~ClientSocket() = default;

void ClientSocket::Connect(Done done) {
  const tcp::endpoint endpoint(asio::ip::make_address(state_->target.address), state_->target.port);
  state_->socket.async_connect(endpoint, [state = state_, done = std::move(done)](error_code error) {
    if (error) return done(error);
    error_code ignored;
    state->socket.set_option(tcp::no_delay(true), ignored);
    if (!state->tls.has_value()) return done(error);
    state->tls->async_handshake(asio::ssl::stream_base::client, [state, done](error_code result) { done(result); });
  });
}

void ClientSocket::Write(asio::const_buffer buffer, Done done) {
  const auto written = [state = state_, done = std::move(done)](error_code error, size_t) { done(error); };
  if (state_->tls.has_value()) return asio::async_write(*state_->tls, buffer, written);
  asio::async_write(state_->socket, buffer, written);
}

void ClientSocket::ReadSome(asio::mutable_buffer buffer, ReadDone done) {
  if (!state_->tls.has_value()) return state_->socket.async_read_some(buffer, std::move(done));
  state_->tls->async_read_some(buffer, [state = state_, done = std::move(done)](error_code error, size_t size) {
    const bool ended = error == asio::ssl::error::stream_truncated;
    done(ended ? error_code(asio::error::eof) : error, size);
  });
}

void ClientSocket::Close() {
  error_code ignored;
  state_->socket.close(ignored);
}

}  // namespace dunlin::tools::load
