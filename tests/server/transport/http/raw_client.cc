// SPDX-License-Identifier: Apache-2.0
#include "tests/server/transport/http/raw_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace dunlin::server {
namespace {

constexpr int kPatienceMs = 120000;

}  // namespace

RawClient::RawClient(const std::string& address, int receive_buffer, const char* from)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) {
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer)), 0);
  }
  sockaddr_in own{};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, from, &own.sin_addr);
  // connect chooses the port: bind would look for one that no connection to any server has, which takes long with
  // thousands.
  const int on = 1;
  EXPECT_EQ(setsockopt(socket_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)), 0);
  EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
}

bool RawClient::Send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
  }
  return true;
}

bool RawClient::ReadSome() {
  char bytes[16384];
  if (!HasInput(kPatienceMs)) return false;
  const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
  if (count <= 0) return false;
  input_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string RawClient::ReadUntil(const std::string& end) {
  size_t found = std::string::npos;
  while ((found = input_.find(end)) == std::string::npos && ReadSome()) {
  }
  const size_t size = found == std::string::npos ? input_.size() : found + end.size();
  std::string taken = input_.substr(0, size);
  input_.erase(0, size);
  return taken;
}

std::string RawClient::ReadAll() {
  while (ReadSome()) {
  }
  return std::exchange(input_, "");
}

std::string RawClient::ReadReply() {
  const std::string header = ReadHeader();
  const std::string field = "Content-Length: ";
  const size_t at = header.find(field);
  if (at == std::string::npos) return header;
  const auto size = static_cast<size_t>(std::stoul(header.substr(at + field.size())));
  while (input_.size() < size && ReadSome()) {
  }
  const std::string body = input_.substr(0, size);
  input_.erase(0, size);
  return header + body;
}

bool RawClient::HasInput(int timeout_ms) {
  pollfd input{socket_, POLLIN, 0};
  return poll(&input, 1, timeout_ms) == 1;
}

void RawClient::ShutdownSend() {
  EXPECT_EQ(shutdown(socket_, SHUT_WR), 0);
}

void RawClient::Close() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

}  // namespace dunlin::server
