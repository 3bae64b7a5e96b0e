// SPDX-License-Identifier: Apache-2.0
// The notifications of `dunlin serve` to a service manager, which the test plays with its own datagram socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Clock = std::chrono::steady_clock;

// A bound socket, named to children by NOTIFY_SOCKET. name: "/path", or "@abstract".
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name), descriptor_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    bound_ = bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), length) == 0;
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(variable);
    close(descriptor_);
    if (name_[0] == '/') unlink(name_.c_str());
  }

  bool bound() const { return bound_; }

  // Every message that comes within this time.
  std::vector<std::string> Listen(std::chrono::milliseconds time) const {
    std::vector<std::string> heard;
    const auto end = Clock::now() + time;
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - now).count() + 1;
      const timeval limit{left / 1000000, left % 1000000};
      setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
      char message[256];
      const ssize_t length = recv(descriptor_, message, sizeof(message), 0);
      if (length > 0) heard.emplace_back(message, static_cast<size_t>(length));
    }
    return heard;
  }

 private:
  const std::string name_;
  const int descriptor_;
  bool bound_ = false;
};

std::string SocketPath() {
  return "/tmp/dunlin_notify_" + std::to_string(getpid());
}

TEST(Notify, ReadyWhenItServesAndStoppingWhenItDrains) {
  for (const std::string& name : {SocketPath(), "@" + SocketPath()}) {
    Manager manager(name);
    ASSERT_TRUE(manager.bound()) << name;
    ServerProcess server(kDemo);
    ASSERT_TRUE(server.ready()) << server.Log();
    EXPECT_THAT(manager.Listen(std::chrono::milliseconds(300)), ElementsAre("READY=1")) << name;
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(30), 0);
    EXPECT_THAT(manager.Listen(std::chrono::milliseconds(50)), ElementsAre("STOPPING=1")) << name;
  }
}

TEST(Notify, SaysThatItReloadsAndThatItIsReadyAgain) {
  Manager manager(SocketPath());
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  manager.Listen(std::chrono::milliseconds(100));
  server.Signal(SIGHUP);
  EXPECT_THAT(manager.Listen(std::chrono::milliseconds(1000)),
              ElementsAre(StartsWith("RELOADING=1\nMONOTONIC_USEC="), "READY=1"));
}

TEST(Notify, PingsTwicePerWatchdogTimeout) {
  Manager manager(SocketPath());
  setenv("WATCHDOG_USEC", "1000000", 1);
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::vector<std::string> heard = manager.Listen(std::chrono::milliseconds(3200));
  const auto beats = std::count(heard.begin(), heard.end(), "WATCHDOG=1");
  EXPECT_GE(beats, 4) << "a beat every 0.5 s, late by a poll of 0.1 s and what the machine adds";
  EXPECT_LE(beats, 8) << "not one at every poll";
}

TEST(Notify, TheWatchdogOfAnotherProcessIsNotOurs) {
  Manager manager(SocketPath());
  setenv("WATCHDOG_USEC", "200000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  ServerProcess server(kDemo);
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(manager.Listen(std::chrono::milliseconds(500)), Not(Contains("WATCHDOG=1")));
}

TEST(Notify, AServerThatCannotStartIsNeverReady) {
  Manager manager(SocketPath());
  EXPECT_EQ(RunDunlin({"serve", "--config", kDemo, "--set", "models.0.path=/nowhere", "--set",
                       "listen.http=127.0.0.1:0", "--set", "listen.grpc=127.0.0.1:0"})
                .status,
            1);
  EXPECT_THAT(manager.Listen(std::chrono::milliseconds(50)), IsEmpty());
}

}  // namespace
}  // namespace dunlin::integration
