// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/http2_flood.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/integration/refusals/raw_connection.h"

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxUnsent = 200000;
constexpr auto kTick = std::chrono::milliseconds(2);

std::string Block(const std::string& method, const Headers& more = {}) {
  Headers headers = CallHeaders(more, ":path");
  headers.insert(headers.begin() + 1, {":path", method});
  return HeaderBlock(headers);
}

std::string Reset(uint32_t stream) {
  return Http2Frame(kRstStream, 0, stream, std::string("\0\0\0\x8", 4));  // CANCEL
}

std::string Message(const FloodCall& call) {
  return Prefixed(0, static_cast<uint32_t>(call.message.size()), call.message);
}

constexpr FloodShape kShapes[] = {
    {"reset",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders, stream, Block(call.method)) +
              Http2Frame(kData, kEndStream, stream, Message(call)) + Reset(stream);
     }},
    {"reset_without_message",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders | kEndStream, stream, Block(call.method)) + Reset(stream);
     }},
    {"reset_half_sent",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders, stream, Block(call.method)) + Reset(stream);
     }},
    {"reset_in_pieces",
     [](uint32_t stream, const FloodCall& call) {
       const std::string block = Block(call.method);
       return Http2Frame(kHeaders, 0, stream, std::string_view(block).substr(0, 20)) +
              Http2Frame(kContinuation, kEndHeaders, stream, std::string_view(block).substr(20)) + Reset(stream);
     }},
    // The server resets these itself.
    {"expired",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders, stream, Block(call.method, {{"grpc-timeout", "1u"}})) +
              Http2Frame(kData, kEndStream, stream, Message(call));
     }},
    {"malformed",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders, stream, Block(call.method)) +
              Http2Frame(kData, 0, stream, std::string("\x7\0\0\0\0", 5)) + Reset(stream);
     }},
    // One call, whose headers go on and on.
    {"endless_headers",
     [](uint32_t stream, const FloodCall& call) {
       if (stream == 1) return Http2Frame(kHeaders, 0, stream, Block(call.method));
       return Http2Frame(kContinuation, 0, 1, HeaderBlock({{"x-more", "and more"}}));
     }},
    {"unacknowledged",
     [](uint32_t stream, const FloodCall& call) {
       return Http2Frame(kHeaders, kEndHeaders, stream, Block(call.method));
     },
     false},
};

class FloodingConnection {
 public:
  FloodingConnection(const std::string& address, const FloodOptions& options) : options_(options) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) != 0) Close();
    unsent_ = FloodPreface(*options.shape);
  }
  ~FloodingConnection() { Close(); }
  FloodingConnection(const FloodingConnection&) = delete;
  FloodingConnection& operator=(const FloodingConnection&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // Writes the frames of so many more calls, as far as there is room for them; how many.
  int64_t AddCalls(int64_t count) {
    int64_t added = 0;
    for (; added < count && unsent_.size() < kMaxUnsent; ++added, stream_ += 2) {
      unsent_ += options_.shape->frames(stream_, options_.call);
    }
    return added;
  }
  // Sends and receives what can be without waiting.
  void Exchange() {
    const ssize_t sent = send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN) return Close();
    std::array<char, 65536> received;
    for (ssize_t got = 1; got > 0;) {
      got = recv(fd_, received.data(), received.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return Close();
    }
  }

 private:
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  const FloodOptions& options_;
  int fd_ = -1;
  uint32_t stream_ = 1;
  std::string unsent_;
};

}  // namespace

const FloodShape* FindFloodShape(std::string_view name) {
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [name](const FloodShape& shape) { return name == shape.name; });
  return found == std::end(kShapes) ? nullptr : found;
}

std::string FloodPreface(const FloodShape& shape) {
  return shape.acknowledges_settings ? Http2Preface() + Http2Frame(kSettings, kAck, 0, "") : Http2Preface();
}

FloodResult Flood(const std::string& address, const FloodOptions& options) {
  FloodResult result;
  const auto start = Clock::now();
  const auto seconds = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<std::unique_ptr<FloodingConnection>> connections(static_cast<size_t>(options.num_connections));
  for (auto& connection : connections) connection = std::make_unique<FloodingConnection>(address, options);
  result.num_open = options.num_connections;
  while (result.num_open > 0 && Clock::now() < start + options.time) {
    const int64_t due = static_cast<int64_t>(seconds() * options.calls_per_second) - result.num_calls;
    const int64_t share = (due + result.num_open - 1) / result.num_open;
    for (auto& connection : connections) {
      if (!connection->is_open()) continue;
      result.num_calls += connection->AddCalls(share);
      connection->Exchange();
      if (connection->is_open()) continue;
      ++result.num_closed;
      result.last_cut_s = seconds();
      if (result.first_cut_s == 0) result.first_cut_s = result.last_cut_s;
      if (options.connects_again) connection = std::make_unique<FloodingConnection>(address, options);
      if (!connection->is_open()) --result.num_open;
    }
    poll(nullptr, 0, static_cast<int>(kTick.count()));
  }
  return result;
}

}  // namespace dunlin::integration
