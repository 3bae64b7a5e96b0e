// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestSilence = std::chrono::seconds(10);

void AppendBigEndian(uint32_t value, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// An integer with a prefix of seven bits. Source: RFC 7541, section 5.1.
void AppendLength(size_t length, std::string* out) {
  if (length < 127) return out->push_back(static_cast<char>(length));
  out->push_back(127);
  for (length -= 127; length >= 128; length /= 128) out->push_back(static_cast<char>(length % 128 + 128));
  out->push_back(static_cast<char>(length));
}

size_t ReadLength(std::string_view bytes, size_t* at) {
  if (*at >= bytes.size()) return 0;
  size_t length = static_cast<uint8_t>(bytes[(*at)++]) & 127U;
  if (length < 127) return length;
  for (size_t shift = 0; *at < bytes.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[(*at)++]);
    length += static_cast<size_t>(byte & 127U) << shift;
    if (byte < 128) break;
  }
  return length;
}

// The value of a literal field with a literal name, which gRPC's first use of a name on a connection is.
std::optional<std::string> FieldOf(std::string_view received, std::string_view name) {
  size_t at = received.find(absl::StrCat(std::string(1, static_cast<char>(name.size())), std::string(name)));
  if (at == std::string_view::npos) return std::nullopt;
  at += 1 + name.size();
  const size_t length = ReadLength(received, &at);
  return std::string(received.substr(std::min(at, received.size()), length));
}

std::optional<std::string> AnswerIn(std::string_view received) {
  if (received.starts_with("HTTP/")) {
    const size_t end = received.find("\r\n");
    if (end != std::string_view::npos) return std::string(received.substr(0, end));
    return std::nullopt;
  }
  const std::optional<std::string> status = FieldOf(received, "grpc-status");
  if (!status.has_value()) return std::nullopt;
  return absl::StrCat("status ", *status, ": ", FieldOf(received, "grpc-message").value_or(""));
}

class Connection {
 public:
  explicit Connection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer));
  }
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends what the server takes while reading what it answers.
  std::string Exchange(std::string_view bytes, std::chrono::milliseconds silence) {
    std::string received;
    auto last = Clock::now();
    const auto end = last + kLongestSilence;
    while (Clock::now() < end && Clock::now() - last < silence) {
      pollfd wait = {fd_, static_cast<short>(bytes.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      if (poll(&wait, 1, 50) <= 0) continue;
      if ((wait.revents & POLLIN) != 0) {
        if (!Receive(&received)) return AnswerIn(received).value_or("closed");
        if (const auto answer = AnswerIn(received)) return *answer;
      } else if ((wait.revents & (POLLERR | POLLHUP)) != 0) {
        return "closed";
      }
      if ((wait.revents & POLLOUT) == 0) continue;
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) continue;
      bytes.remove_prefix(static_cast<size_t>(sent));
      last = Clock::now();
    }
    return "open";
  }

 private:
  bool Receive(std::string* received) const {
    char buffer[16384];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got <= 0) return false;
    received->append(buffer, static_cast<size_t>(got));
    return true;
  }

  const int fd_;
};

}  // namespace

std::string Http2Preface() {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2Frame(kSettings, 0, 0, ""));
}

std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame;
  AppendBigEndian(static_cast<uint32_t>(payload.size()), 3, &frame);
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  AppendBigEndian(stream, 4, &frame);
  frame.append(payload);
  return frame;
}

std::string HeaderBlock(const Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block.push_back(0);
    for (const std::string* text : {&name, &value}) {
      AppendLength(text->size(), &block);
      block.append(*text);
    }
  }
  return block;
}

Headers CallHeaders(const Headers& more, std::string_view without) {
  Headers headers;
  for (const auto& [name, value] : Headers{{":method", "POST"},
                                           {":scheme", "http"},
                                           {":path", "/dunlin.v1.GenerationService/Generate"},
                                           {":authority", "test"},
                                           {"te", "trailers"},
                                           {"content-type", "application/grpc"}}) {
    if (name != without) headers.emplace_back(name, value);
  }
  headers.insert(headers.end(), more.begin(), more.end());
  return headers;
}

std::string Http2Call(const Headers& headers, std::string_view body) {
  return absl::StrCat(Http2Preface(), Http2Frame(kHeaders, kEndHeaders, 1, HeaderBlock(headers)),
                      Http2Frame(kData, kEndStream, 1, body));
}

std::string Prefixed(uint8_t flag, uint32_t length, std::string_view message) {
  std::string bytes(1, static_cast<char>(flag));
  AppendBigEndian(length, 4, &bytes);
  bytes.append(message);
  return bytes;
}

std::string OutcomeOf(const std::string& address, std::string_view bytes, std::chrono::milliseconds silence) {
  return Connection(address).Exchange(bytes, silence);
}

}  // namespace dunlin::integration
