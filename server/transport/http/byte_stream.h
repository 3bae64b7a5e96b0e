// SPDX-License-Identifier: Apache-2.0
// The bytes of one HTTP connection, over plain TCP or TLS. A TLS stream shakes hands with its first read; that read
// ends with an error if the client does not speak TLS, or shows no certificate where one is required. Thread rule: the
// HTTP thread. Ownership: a handler keeps the stream's owner alive.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <utility>

namespace dunlin::server {

class ByteStream {
 public:
  using ReadHandler = std::function<void(boost::system::error_code error, size_t size)>;
  using WriteHandler = std::function<void(boost::system::error_code error)>;

  explicit ByteStream(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // The handler is called later, never from within. One read, and one write, is outstanding at a time; each buffer
  // stays until its handler is called.
  virtual void ReadSome(boost::asio::mutable_buffer buffer, ReadHandler handler) = 0;
  // All of the buffer.
  virtual void Write(boost::asio::const_buffer buffer, WriteHandler handler) = 0;
  // Tells the client that nothing more is sent. REQUIRES: no write is outstanding.
  virtual void FinishSending();

  // Ends what is outstanding with an error.
  void Close();
  // From now on, Close resets the connection.
  void ResetOnClose();

 protected:
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  boost::asio::ip::tcp::socket socket_;
};

std::unique_ptr<ByteStream> MakePlainStream(boost::asio::ip::tcp::socket socket);
// context: of a server, see ServerIdentity::context. Null if there is no memory. REQUIRES: SIGPIPE is ignored, or
// blocked on the HTTP thread.
std::unique_ptr<ByteStream> MakeTlsStream(boost::asio::ip::tcp::socket socket, SSL_CTX* context);

}  // namespace dunlin::server
