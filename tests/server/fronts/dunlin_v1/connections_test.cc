// SPDX-License-Identifier: Apache-2.0
// The bounds of the gRPC port on connections, over real sockets: a connection that the server takes gets its SETTINGS
// frame at once, one that it refuses is closed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using namespace std::chrono_literals;

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Socket() { Close(); }

  // From `from`, any address of 127.0.0.0/8.
  void Connect(const std::string& address, const char* from = "127.0.0.1") const {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0);
  }
  // True when the server sends, false when it closes; fails the test when it does neither.
  bool IsServed() const {
    pollfd wait = {fd_, POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, 20000), 1) << "neither served nor closed";
    char byte = 0;
    return recv(fd_, &byte, 1, 0) == 1;
  }
  bool IsSilent(std::chrono::milliseconds time) const {
    pollfd wait = {fd_, POLLIN, 0};
    return poll(&wait, 1, static_cast<int>(time.count())) == 0;
  }
  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Whether the server closes the connection within some time.
  bool IsClosed() const {
    char bytes[4096];
    for (int i = 0; i < 1000; ++i) {
      pollfd wait = {fd_, POLLIN, 0};
      if (poll(&wait, 1, 5000) != 1) return false;
      if (recv(fd_, bytes, sizeof(bytes), 0) <= 0) return true;
    }
    return false;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

Socket Connected(const EdgeServer& edge, const char* from = "127.0.0.1") {
  Socket socket;
  socket.Connect(edge.address(), from);
  return socket;
}

TEST(Connections, AreBoundedInAllAndPerAddress) {
  EdgeServerOptions options;
  options.limits.max_connections = 3;
  options.limits.max_connections_per_address = 2;
  EdgeServer edge(options);
  Socket first = Connected(edge);
  EXPECT_TRUE(first.IsServed());
  const Socket second = Connected(edge);
  EXPECT_TRUE(second.IsServed());
  EXPECT_FALSE(Connected(edge).IsServed()) << "the address has two";
  const Socket other = Connected(edge, "127.0.0.2");
  EXPECT_TRUE(other.IsServed());
  EXPECT_FALSE(Connected(edge, "127.0.0.3").IsServed()) << "the port has three";
  first.Close();
  EXPECT_TRUE(Eventually([&] { return Connected(edge, "127.0.0.3").IsServed(); })) << "a closed one counts no more";
}

TEST(Connections, AClosedConnectionCountsNoMore) {
  EdgeServerOptions options;
  options.limits.max_connections = 2;
  EdgeServer edge(options);
  for (int i = 0; i < 4; ++i) {
    const auto channel = edge.NewChannel();
    const auto stub = v1::GenerationService::NewStub(channel);
    EXPECT_TRUE(Eventually([&] {
      grpc::ClientContext context;
      Reply reply;
      const auto reader = stub->Generate(&context, TextRequest("abc", 1));
      ReadAll(reader.get(), &context, &reply);
      return reply.status.ok();
    })) << i;
  }
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// As few descriptors as are open now, until the end of the scope.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest free one
    close(next);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Connections, WaitWhileTheProcessHasNoDescriptors) {
  EdgeServer edge;
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 1)).status.ok());
  const Socket socket;
  {
    const NoMoreDescriptors limit;
    socket.Connect(edge.address());
    const double before = ProcessorSeconds();
    EXPECT_TRUE(socket.IsSilent(400ms));
    EXPECT_LT(ProcessorSeconds() - before, 0.2) << "accepting does not spin";
    EXPECT_TRUE(edge.Generate(TextRequest("abc", 1)).status.ok()) << "open connections go on";
  }
  EXPECT_TRUE(socket.IsServed());
}

// HTTP/2: the preface, an empty SETTINGS frame, then pings.
TEST(Connections, AFloodOfPingsClosesItsConnection) {
  EdgeServerOptions options;
  options.limits.max_ping_strikes = 3;
  EdgeServer edge(options);
  const Socket socket = Connected(edge);
  socket.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9));
  const std::string ping("\0\0\x8\x6\0\0\0\0\0ABCDEFGH", 17);
  std::string pings;
  for (int i = 0; i < 20; ++i) pings += ping;
  socket.Send(pings);
  EXPECT_TRUE(socket.IsClosed());
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 1)).status.ok());
}

TEST(Connections, AnOldConnectionEndsTheCallsThatItHas) {
  EdgeServerOptions options;
  options.limits.max_connection_age_ms = 300;
  EdgeServer edge(options);
  edge.control().step_us = 5000;
  const Reply reply = edge.Generate(TextRequest("abc", 200));  // a second
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).token_ids.size(), 200U);
  EXPECT_TRUE(Eventually([&] { return edge.channel()->GetState(false) != GRPC_CHANNEL_READY; }))
      << "the client was told to go";
  EXPECT_TRUE(edge.Generate(TextRequest("abc", 1)).status.ok()) << "on a new connection";
}

}  // namespace
}  // namespace dunlin::server
