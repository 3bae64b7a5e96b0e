// SPDX-License-Identifier: Apache-2.0
// One connection of an HTTP client, plain or TLS. client_socket.cc is the only file here that includes Asio's TLS.
// Thread rule: the io_context's one thread. A handler is called later, never from within, and exactly once.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>

#include "tools/load/http_target.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

class ClientSocket {
 public:
  using Done = std::function<void(boost::system::error_code error)>;
  using ReadDone = std::function<void(boost::system::error_code error, size_t size)>;

  // io outlives this.
  ClientSocket(boost::asio::io_context* io, const HttpTarget& target);
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  // Connects, and shakes hands over TLS: the server's certificate must be of HttpTarget::name.
  void Connect(Done done);
  void Write(boost::asio::const_buffer buffer, Done done);
  void ReadSome(boost::asio::mutable_buffer buffer, ReadDone done);
  // Ends what is outstanding with an error.
  void Close();

 private:
  struct State;
  const std::shared_ptr<State> state_;  // operations hold it too: Asio's TLS stream must outlive them
};

}  // namespace dunlin::tools::load
