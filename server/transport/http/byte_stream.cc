// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/byte_stream.h"

#include <openssl/err.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <climits>
#include <utility>

namespace dunlin::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

class PlainStream final : public ByteStream {
 public:
  using ByteStream::ByteStream;

  void ReadSome(asio::mutable_buffer buffer, ReadHandler handler) override {
    socket().async_read_some(buffer, std::move(handler));
  }
  void Write(asio::const_buffer buffer, WriteHandler handler) override {
    asio::async_write(socket(), buffer, [handler = std::move(handler)](error_code error, size_t) { handler(error); });
  }
};

// OpenSSL reads and writes the socket itself, and asio waits for it to be ready: beside the session, a connection takes
// no buffers.
class TlsStream final : public ByteStream {
 public:
  // REQUIRES: ssl is of this socket, which does not block.
  TlsStream(tcp::socket socket, Session ssl) : ByteStream(std::move(socket)), ssl_(std::move(ssl)) {}

  void ReadSome(asio::mutable_buffer buffer, ReadHandler handler) override {
    const int count = Try([&] { return SSL_read(ssl_.get(), buffer.data(), IntOf(buffer.size())); });
    if (count > 0) return Complete(std::move(handler), error_code(), static_cast<size_t>(count));
    RetryOrFail(
        count, [this, buffer](ReadHandler next) { ReadSome(buffer, std::move(next)); }, std::move(handler));
  }

  void Write(asio::const_buffer buffer, WriteHandler handler) override {
    WriteSome(buffer, [handler = std::move(handler)](error_code error, size_t) { handler(error); });
  }

  // The notice goes out if the socket takes it, as it does when all that came before has been taken.
  void FinishSending() override {
    Try([this] { return SSL_is_init_finished(ssl_.get()) == 1 ? SSL_shutdown(ssl_.get()) : 0; });
    ByteStream::FinishSending();
  }

 private:
  static int IntOf(size_t size) { return static_cast<int>(std::min<size_t>(size, INT_MAX)); }

  // A descriptor that is closed may be another connection's by now.
  bool is_usable() { return !failed_ && socket().is_open(); }

  // The error queue is the thread's: what others left there would be taken for an error of this call.
  template <class Call>
  int Try(const Call& call) {
    ERR_clear_error();
    return is_usable() ? call() : 0;
  }

  void WriteSome(asio::const_buffer buffer, ReadHandler handler) {
    size_t written = 0;
    int count = 1;
    while (written < buffer.size()) {
      const asio::const_buffer rest = buffer + written;
      count = Try([&] { return SSL_write(ssl_.get(), rest.data(), IntOf(rest.size())); });
      if (count <= 0) break;
      written += static_cast<size_t>(count);
    }
    if (written == buffer.size()) return Complete(std::move(handler), error_code(), written);
    RetryOrFail(
        count, [this, rest = buffer + written](ReadHandler next) { WriteSome(rest, std::move(next)); },
        std::move(handler));
  }

  void Complete(ReadHandler handler, error_code error, size_t size) {
    asio::post(socket().get_executor(), [handler = std::move(handler), error, size] { handler(error, size); });
  }

  // After a call that returned `result`: calls `retry` once the socket is ready, or the handler with what is wrong.
  template <class Retry>
  void RetryOrFail(int result, Retry retry, ReadHandler handler) {
    const int reason = is_usable() ? SSL_get_error(ssl_.get(), result) : SSL_ERROR_SSL;
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE) {
      const bool ended = reason == SSL_ERROR_ZERO_RETURN;
      failed_ = failed_ || !ended;
      ERR_clear_error();
      const error_code lost = asio::error::connection_reset;
      return Complete(std::move(handler), ended ? error_code(asio::error::eof) : lost, 0);
    }
    socket().async_wait(reason == SSL_ERROR_WANT_READ ? tcp::socket::wait_read : tcp::socket::wait_write,
                        [retry = std::move(retry), handler = std::move(handler)](error_code error) mutable {
                          if (error) return handler(error, 0);
                          retry(std::move(handler));
                        });
  }

  const Session ssl_;
  bool failed_ = false;  // nothing more may be done with ssl_
};

}  // namespace

void ByteStream::FinishSending() {
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

void ByteStream::Close() {
  error_code ignored;
  socket_.close(ignored);
}

void ByteStream::ResetOnClose() {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
}

std::unique_ptr<ByteStream> MakePlainStream(tcp::socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

std::unique_ptr<ByteStream> MakeTlsStream(tcp::socket socket, SSL_CTX* context) {
  error_code error;
  socket.native_non_blocking(true, error);
  Session session(error ? nullptr : SSL_new(context), &SSL_free);
  if (session == nullptr || SSL_set_fd(session.get(), socket.native_handle()) != 1) return nullptr;
  SSL_set_accept_state(session.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(session));
}

}  // namespace dunlin::server
