// SPDX-License-Identifier: Apache-2.0
// The HTTP port over real sockets: answers, refusals and bounds.
#include "server/transport/http/http_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/transport/http/probe_routes.h"

namespace dunlin::server {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  static constexpr int kMaxConnections = 4;

  HttpServerTest() { Restart(HttpTimeouts().read); }

  void Restart(std::chrono::milliseconds read_timeout) {
    server_.reset();
    HttpServerOptions options;
    options.connections = {.total = kMaxConnections, .per_address = kMaxConnections};
    options.routes = ProbeRoutes(
        {[] { return std::string("metric 1\n"); }, [this] { return unhealthy_; }, [this] { return unready_; }});
    options.timeouts.read = read_timeout;
    server_ = *HttpServer::Start("127.0.0.1:0", std::move(options));
  }

  tcp::socket Connect() {
    const std::string address = server_->bound_address();
    const auto port = static_cast<unsigned short>(std::stoi(address.substr(address.rfind(':') + 1)));
    tcp::socket socket(io_);
    socket.connect(tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), port));
    return socket;
  }

  // What comes back until the server closes.
  static std::string ReadAll(tcp::socket* socket) {
    std::string answer;
    boost::system::error_code error;
    boost::asio::read(*socket, boost::asio::dynamic_buffer(answer), error);
    return answer;
  }

  // Whether bytes or the end of the connection come within 10 s.
  static bool HasInput(tcp::socket* socket) {
    pollfd input{socket->native_handle(), POLLIN, 0};
    return poll(&input, 1, 10000) == 1;
  }

  std::string Send(const std::string& bytes) {
    tcp::socket socket = Connect();
    boost::system::error_code ignored;  // the server may answer and close before it has read everything
    boost::asio::write(socket, boost::asio::buffer(bytes), ignored);
    return ReadAll(&socket);
  }

  std::string Get(const std::string& path) {
    return Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  }

  std::string unhealthy_;  // set before a request, read while it runs
  std::string unready_;
  boost::asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesMetrics) {
  const std::string answer = Get("/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nmetric 1\n"));
}

TEST_F(HttpServerTest, ProbesSayWhatIsWrong) {
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get("/readyz?verbose=1"), HasSubstr("200 OK"));
  unhealthy_ = "no step for 11 s";
  unready_ = "draining";
  EXPECT_THAT(Get("/healthz"), testing::AllOf(HasSubstr("503"), HasSubstr("no step for 11 s")));
  EXPECT_THAT(Get("/readyz"), testing::AllOf(HasSubstr("503"), HasSubstr("draining")));
}

TEST(HttpConnections, AreBoundedPerAddress) {
  const auto healthy = [] { return std::string(); };
  HttpServerOptions options;
  options.connections = {.total = 8, .per_address = 2};
  options.routes = ProbeRoutes({healthy, healthy, healthy});
  auto server = *HttpServer::Start("127.0.0.1:0", options);
  const std::string address = server->bound_address();
  const tcp::endpoint endpoint(boost::asio::ip::make_address("127.0.0.1"),
                               static_cast<unsigned short>(std::stoi(address.substr(address.rfind(':') + 1))));
  boost::asio::io_context io;
  const auto is_served = [&](tcp::socket* socket, const char* from) {
    socket->open(tcp::v4());
    socket->bind(tcp::endpoint(boost::asio::ip::make_address(from), 0));
    socket->connect(endpoint);
    boost::system::error_code error;
    boost::asio::write(*socket, boost::asio::buffer(std::string("GET /healthz HTTP/1.1\r\n\r\n")), error);
    char byte = 0;
    return boost::asio::read(*socket, boost::asio::buffer(&byte, 1), error) == 1;
  };
  tcp::socket first(io), second(io), third(io), other(io), again(io);
  EXPECT_TRUE(is_served(&first, "127.0.0.1"));
  EXPECT_TRUE(is_served(&second, "127.0.0.1"));
  EXPECT_FALSE(is_served(&third, "127.0.0.1"));
  EXPECT_TRUE(is_served(&other, "127.0.0.2")) << "others are not affected";
  first.close();
  for (int i = 0; i < 1000 && !again.is_open(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!is_served(&again, "127.0.0.1")) again.close();
  }
  EXPECT_TRUE(again.is_open()) << "a closed one counts no more";
}

TEST_F(HttpServerTest, WaitsWhileTheProcessHasNoDescriptors) {
  tcp::socket socket(io_, tcp::v4());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest free descriptor
  close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string address = server_->bound_address();
  socket.connect(tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"),
                               static_cast<unsigned short>(std::stoi(address.substr(address.rfind(':') + 1)))));
  rusage from{};
  rusage to{};
  getrusage(RUSAGE_SELF, &from);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  getrusage(RUSAGE_SELF, &to);
  setrlimit(RLIMIT_NOFILE, &before);
  const auto microseconds = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  EXPECT_LT(microseconds(to) - microseconds(from), 200'000) << "accepting does not spin";
  boost::asio::write(socket, boost::asio::buffer(std::string("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")));
  EXPECT_THAT(ReadAll(&socket), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, ClosesConnectionsOverTheLimit) {
  std::vector<tcp::socket> idle;
  for (int i = 0; i < kMaxConnections; ++i) {
    idle.push_back(Connect());
    boost::asio::write(idle.back(), boost::asio::buffer(std::string("GET /hea")));
  }
  EXPECT_EQ(Get("/healthz"), "") << "the fifth is closed unread";
  idle.clear();
  for (int i = 0; i < 100 && Get("/healthz").empty(); ++i) {
  }
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK")) << "and the slots come back";
}

// The limit is for the whole header: a client that keeps sending is not spared.
TEST_F(HttpServerTest, CutsOffAClientThatSendsItsHeaderSlowly) {
  Restart(std::chrono::milliseconds(200));
  tcp::socket slow = Connect();
  boost::asio::write(slow, boost::asio::buffer(std::string("GET /healthz HTTP/1.1\r\nX: ")));
  boost::system::error_code error;
  int sent = 0;
  for (; sent < 1000 && !error; ++sent) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    boost::asio::write(slow, boost::asio::buffer(std::string("a")), error);
  }
  ASSERT_TRUE(error) << "it was read for 10 s";
  EXPECT_GT(sent, 1) << "it was cut off while it sent";
  EXPECT_THAT(ReadAll(&slow), Not(HasSubstr("200 OK")));
}

TEST_F(HttpServerTest, CutsOffAnIdleClientAndItsSlotComesBack) {
  Restart(std::chrono::milliseconds(200));
  std::vector<tcp::socket> idle;
  for (int i = 0; i < kMaxConnections; ++i) idle.push_back(Connect());
  for (tcp::socket& socket : idle) {
    ASSERT_TRUE(HasInput(&socket)) << "it was kept for 10 s";
    EXPECT_EQ(ReadAll(&socket), "");
  }
  for (int i = 0; i < 100 && Get("/healthz").empty(); ++i) {
  }
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
}

TEST(HttpServer, RefusesAddressesItCannotRead) {
  for (const char* address : {"", "127.0.0.1", "nowhere:1", "127.0.0.1:x", "127.0.0.1:70000"}) {
    EXPECT_EQ(HttpServer::Start(address, {}).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace dunlin::server
