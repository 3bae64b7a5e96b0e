// SPDX-License-Identifier: Apache-2.0
// One client connection of a test, byte by byte. Every wait ends after 120 s; what has come by then is returned.
#pragma once

#include <cstdint>
#include <string>

namespace dunlin::server {

class RawClient {
 public:
  // address: "127.0.0.1:PORT". receive_buffer: SO_RCVBUF in bytes; 0: the system's. from: the client's address.
  explicit RawClient(const std::string& address, int receive_buffer = 0, const char* from = "127.0.0.1");
  ~RawClient() { Close(); }
  RawClient(RawClient&& other) noexcept : socket_(other.socket_), input_(std::move(other.input_)) {
    other.socket_ = -1;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  RawClient& operator=(RawClient&&) = delete;

  // False if the server has closed the connection.
  bool Send(const std::string& bytes);
  // What comes up to and with `end`; all that came if it does not.
  std::string ReadUntil(const std::string& end);
  // What comes until the server closes the connection.
  std::string ReadAll();
  // The header of a response, with the empty line.
  std::string ReadHeader() { return ReadUntil("\r\n\r\n"); }
  // One response with a Content-Length: its header and its body.
  std::string ReadReply();
  // Whether bytes, or the end of the connection, come within this time.
  bool HasInput(int timeout_ms);

  void ShutdownSend();
  void Close();

 private:
  // False at the end of the connection, or of the time.
  bool ReadSome();

  int socket_ = -1;
  std::string input_;
};

}  // namespace dunlin::server
