// SPDX-License-Identifier: Apache-2.0
// The connections of a port over real sockets, without gRPC: whose is a call, and what a cut does.
#include "server/transport/grpc/open_connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace dunlin::server {
namespace {

constexpr CallBudgetLimits kLimits = {.max_streams = 4, .abandoned_calls_per_second = 10};
constexpr size_t kHeaderBytes = 1000;

// A TCP connection over loopback.
struct Pair {
  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    size = sizeof(peer);
    server = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
    close(listener);
  }
  ~Pair() {
    close(client);
    if (server >= 0) close(server);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  std::string name() const {
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(reinterpret_cast<const sockaddr_in*>(&peer)->sin_port));
  }
  bool PassesBytes() const {
    char byte = 'x';
    return send(client, &byte, 1, MSG_NOSIGNAL) == 1 && recv(server, &byte, 1, 0) == 1;
  }

  int client = -1;
  int server = -1;
  sockaddr_storage peer{};
};

class OpenConnectionsTest : public ::testing::Test {
 protected:
  OpenConnectionsTest() {
    shared_->on_cut = [this](const std::string& address, const char* reason) {
      cuts_ += address + ": " + reason + "\n";
    };
  }
  static void OpenUntilCut(GrpcConnection* connection) {
    for (int i = 0; i < 100 && connection->TryOpen(0); ++i) {
    }
  }

  std::string cuts_;
  const std::shared_ptr<ConnectionShared> shared_ = std::make_shared<ConnectionShared>(kLimits, kHeaderBytes);
  OpenConnections open_{{.total = 3, .per_address = 2}, shared_};
};

TEST_F(OpenConnectionsTest, AreFoundByTheNameThatGrpcHasForTheirPeer) {
  const Pair pair;
  const auto add = [&](const char* address, uint16_t port) {
    sockaddr_storage peer{};
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&peer);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET6, address, &v6->sin6_addr), 1);
    EXPECT_TRUE(open_.TryAdd(pair.server, peer)) << address;
  };
  add("2001:db8::7", 50000);
  add("fe80::1", 50001);
  add("::ffff:192.0.2.1", 50002);
  EXPECT_NE(open_.Find("ipv6:%5B2001:db8::7%5D:50000"), nullptr);
  EXPECT_NE(open_.Find("ipv6:[2001:db8::7]:50000"), nullptr);
  EXPECT_NE(open_.Find("ipv6:%5Bfe80::1%252%5D:50001"), nullptr) << "with its zone";
  EXPECT_NE(open_.Find("ipv4:192.0.2.1:50002"), nullptr) << "over an IPv6 socket";
  EXPECT_EQ(open_.Find("ipv4:192.0.2.1:50003"), nullptr);
  EXPECT_EQ(open_.Find("unix:"), nullptr);
  EXPECT_EQ(open_.Find("inproc"), nullptr);
}

TEST_F(OpenConnectionsTest, CountUntilTheyAreClosed) {
  const Pair first;
  Pair second;
  const Pair third;
  EXPECT_TRUE(open_.TryAdd(first.server, first.peer));
  EXPECT_TRUE(open_.TryAdd(second.server, second.peer));
  EXPECT_FALSE(open_.TryAdd(third.server, third.peer)) << "the address has two";
  close(std::exchange(second.server, -1));
  usleep(30000);  // longer than between two looks at all of them
  EXPECT_TRUE(open_.TryAdd(third.server, third.peer));
  EXPECT_EQ(open_.Find(second.name()), nullptr);
}

TEST_F(OpenConnectionsTest, ACutResetsTheConnectionOnceAndDropsWhatItHasReceived) {
  const Pair pair;
  const Pair neighbour;
  ASSERT_TRUE(open_.TryAdd(pair.server, pair.peer));
  ASSERT_TRUE(open_.TryAdd(neighbour.server, neighbour.peer));
  EXPECT_EQ(send(pair.client, "flood", 5, MSG_NOSIGNAL), 5);
  OpenUntilCut(open_.Find(pair.name()).get());
  EXPECT_FALSE(open_.Find(pair.name())->TryOpen(0));
  char bytes[8];
  EXPECT_LE(recv(pair.server, bytes, sizeof(bytes), MSG_DONTWAIT), 0) << "gRPC reads no more of it";
  EXPECT_EQ(recv(pair.client, bytes, sizeof(bytes), 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(shared_->num_cut, 1U);
  EXPECT_EQ(cuts_,
            "127.0.0.1: it opened too many calls that it did not see through "
            "(limits.max_abandoned_calls_per_second)\n");
  EXPECT_TRUE(neighbour.PassesBytes());
}

TEST_F(OpenConnectionsTest, ACutOfAClosedConnectionLeavesWhoeverHasItsDescriptorAlone) {
  Pair pair;
  ASSERT_TRUE(open_.TryAdd(pair.server, pair.peer));
  const auto connection = open_.Find(pair.name());
  const Pair other;
  ASSERT_EQ(dup2(other.server, pair.server), pair.server);  // closes it and gives its number away
  EXPECT_TRUE(connection->is_closed());
  OpenUntilCut(connection.get());
  EXPECT_TRUE(other.PassesBytes());
}

TEST_F(OpenConnectionsTest, HeadersAreBoundedFromOneCallToTheNext) {
  const Pair pair;
  ASSERT_TRUE(open_.TryAdd(pair.server, pair.peer));
  const auto connection = open_.Find(pair.name());
  EXPECT_TRUE(connection->TakeHeaderBytes(kHeaderBytes));
  EXPECT_TRUE(connection->TryOpen(0));
  EXPECT_TRUE(connection->TakeHeaderBytes(kHeaderBytes));
  EXPECT_EQ(shared_->num_cut, 0U);
  EXPECT_FALSE(connection->TakeHeaderBytes(1));
  EXPECT_EQ(cuts_, "127.0.0.1: the headers of a call are far over limits.max_metadata_bytes\n");
}

}  // namespace
}  // namespace dunlin::server
