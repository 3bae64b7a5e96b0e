// SPDX-License-Identifier: Apache-2.0
// What `dunlin serve` promises under faults: a device that hangs, a log that nobody reads, stop signals while it loads,
// ports that are taken. The device is the fake module, which hangs while a file exists.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

bool Eventually(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds(30);
  while (Clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

CommandResult GenerateTale(const ServerProcess& server, int max_tokens = 4) {
  return RunDunlin({"generate", "--address", server.grpc(), "--model", "demo", "--json", "--ignore-eos", "--max-tokens",
                    std::to_string(max_tokens), "A long tale"});
}

int Healthcheck(const ServerProcess& server, const std::string& service = "") {
  return RunDunlin({"healthcheck", "--address", server.grpc(), "--service", service, "--timeout-ms", "10000"}).status;
}

double Running(const ServerProcess& server) {
  return MetricValue(HttpGet(server.http(), "/metrics"), R"(vllm:num_requests_running{model_name="demo"})");
}

// A server on the fake device, which hangs between Hang and GoOn.
class HangingServer {
 public:
  explicit HangingServer(std::vector<std::string> settings)
      : file_("/tmp/dunlin_hang_" + std::to_string(getpid())), server_([&] {
          std::vector<std::string> arguments = {"--set", "models.0.device=cuda",
                                                "--set", "compute.cuda_module=" DUNLIN_MODULE_DIR "/libfake_cuda.so",
                                                "--set", "health.stall_ms=1000"};
          for (std::string& setting : settings) arguments.insert(arguments.end(), {"--set", std::move(setting)});
          GoOn();
          setenv(kernels::kFakeHangFile, file_.c_str(), 1);
          return arguments;
        }()) {
    unsetenv(kernels::kFakeHangFile);
  }
  ~HangingServer() { GoOn(); }

  void Hang() const { std::ofstream(file_) << "now"; }
  void GoOn() const { unlink(file_.c_str()); }
  ServerProcess& operator*() { return server_.process; }
  ServerProcess* operator->() { return &server_.process; }

 private:
  struct Started {
    explicit Started(const std::vector<std::string>& arguments) : process(kDemo, arguments) {}
    ServerProcess process;
  };
  const std::string file_;
  Started server_;
};

TEST(Promises, AStalledEngineTurnsHealthAndRefusesUntilItGoesOn) {
  HangingServer server({"health.exit_after_ms=0"});
  ASSERT_TRUE(server->ready()) << server->Log();
  EXPECT_EQ(Healthcheck(*server), 0);
  server.Hang();
  CommandResult stuck;
  std::thread client([&] { stuck = GenerateTale(*server); });
  const auto began = Clock::now();
  EXPECT_TRUE(Eventually([&] { return Healthcheck(*server) == 1; })) << server->Log();
  EXPECT_LT(SecondsSince(began), 30);
  EXPECT_EQ(Healthcheck(*server, "dunlin.v1.GenerationService"), 1);
  EXPECT_EQ(Healthcheck(*server, "model/demo"), 1);
  EXPECT_THAT(HttpGet(server->http(), "/readyz"), HasSubstr("model demo: no progress for"));
  EXPECT_THAT(HttpGet(server->http(), "/healthz"), HasSubstr("model demo: no progress for"));
  EXPECT_EQ(MetricValue(HttpGet(server->http(), "/metrics"), "dunlin_ready"), 0);
  const CommandResult refused = GenerateTale(*server);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(refused.out, HasSubstr("the server is stalled: an engine makes no progress"));
  EXPECT_THAT(refused.out, HasSubstr("STALLED"));

  server.GoOn();
  client.join();
  EXPECT_EQ(stuck.status, 0) << stuck.out;
  EXPECT_TRUE(Eventually([&] { return Healthcheck(*server) == 0; })) << server->Log();
  EXPECT_EQ(HttpGet(server->http(), "/readyz"), "ok\n");
  EXPECT_EQ(GenerateTale(*server).status, 0);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(30), 0);
}

TEST(Promises, AStallThatLastsEndsTheProcessWithAStatusOfItsOwn) {
  HangingServer server({"health.exit_after_ms=500"});
  ASSERT_TRUE(server->ready()) << server->Log();
  server.Hang();
  CommandResult stuck;
  std::thread client([&] { stuck = GenerateTale(*server); });
  EXPECT_EQ(server->Wait(30), 71) << server->Log();
  client.join();
  EXPECT_EQ(stuck.status, 1);
  EXPECT_THAT(stuck.out, HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(server->Log(), HasSubstr("stalled for longer than health.exit_after_ms: model demo: no progress for"));
}

TEST(Promises, TheDrainTimeoutBoundsAHungDeviceToo) {
  HangingServer server({"limits.drain_timeout_ms=300"});
  ASSERT_TRUE(server->ready()) << server->Log();
  server.Hang();
  std::thread client([&] { GenerateTale(*server); });
  EXPECT_TRUE(Eventually([&] { return Running(*server) == 1; }));
  const auto began = Clock::now();
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(30), 72) << server->Log();
  EXPECT_LT(SecondsSince(began), 0.3 + 2 + 20) << "20 s for a busy machine";
  client.join();
  EXPECT_THAT(server->Log(), HasSubstr("a thread did not stop within limits.drain_timeout_ms"));
}

TEST(Promises, AStoppedAndContinuedProcessIsNotStalled) {
  HangingServer server({"health.exit_after_ms=1000"});
  ASSERT_TRUE(server->ready()) << server->Log();
  CommandResult result;
  std::thread client([&] { result = GenerateTale(*server, 480); });
  EXPECT_TRUE(Eventually([&] { return Running(*server) == 1; }));
  server->Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  server->Signal(SIGCONT);
  client.join();
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_THAT(server->Log(), testing::Not(HasSubstr("stalled")));
}

// A pipe that is full and that nobody reads.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
    EXPECT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends_[1], "x", 1) == 1) {
    }
    EXPECT_EQ(fcntl(ends_[1], F_SETFL, 0), 0) << "the server's writes block";
  }
  ~FullPipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int writer() const { return ends_[1]; }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Promises, ALogThatNobodyReadsBlocksNoRequestAndNoStop) {
  const FullPipe log;
  ServerProcess server(kDemo, {"--set", "limits.drain_timeout_ms=1000"}, {.until_ready = true, .log = log.writer()});
  ASSERT_TRUE(server.ready());
  const CommandResult load =
      RunDunlin({"load", "--address", server.grpc(), "--model", "demo", "--concurrency", "8", "--num-prompts", "200",
                 "--input-len", "8", "--output-len", "2", "--check", "completed>=200", "--quiet"});
  EXPECT_EQ(load.status, 0) << load.out << load.err;
  EXPECT_EQ(Healthcheck(server), 0);
  EXPECT_EQ(HttpGet(server.http(), "/healthz"), "ok\n");
  EXPECT_EQ(MetricValue(HttpGet(server.http(), "/metrics"), "dunlin_log_lines_dropped_total"), 0) << "all fit";
  const auto began = Clock::now();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(30), 0);
  EXPECT_LT(SecondsSince(began), 1 + 2 + 20) << "20 s for a busy machine";
}

// Weights that take seconds to make.
const std::vector<std::string> kLongLoad = {
    "--set", "models.0.path=",          "--set", "models.0.weights=random",
    "--set", "models.0.shape=llama-1b", "--set", "models.0.precisions=[\"bf16\"]"};

TEST(Promises, PortsAnswerWhileModelsLoadAndAStopSignalEndsTheLoad) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess server(kDemo, kLongLoad, {.until_ready = false, .log = -1});
    ASSERT_TRUE(server.ready()) << server.Log();
    if (signal == SIGTERM) {
      EXPECT_EQ(HttpGet(server.http(), "/readyz"), "loading\n");
      EXPECT_EQ(HttpGet(server.http(), "/healthz"), "ok\n");
      EXPECT_EQ(Healthcheck(server), 1);
      const CommandResult refused = GenerateTale(server);
      EXPECT_EQ(refused.status, 1);
      EXPECT_THAT(refused.out, HasSubstr("UNAVAILABLE"));
      EXPECT_THAT(refused.out, HasSubstr("the server is loading its models"));
      EXPECT_THAT(refused.out, HasSubstr("LOADING"));
    }
    const auto began = Clock::now();
    server.Signal(signal);
    EXPECT_EQ(server.Wait(30), 0) << server.Log();
    EXPECT_LT(SecondsSince(began), 1 + 20) << "20 s for a busy machine";
    EXPECT_THAT(server.Log(), HasSubstr("stopping: loading is given up"));
    EXPECT_THAT(server.Log(), testing::Not(HasSubstr("cannot start")));
  }
}

TEST(Promises, APortThatIsTakenIsReportedBeforeAnythingIsLoaded) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string at = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  for (const std::string port : {"listen.grpc", "listen.http"}) {
    std::vector<std::string> arguments = {"serve", "--config", kDemo};
    arguments.insert(arguments.end(), {"--set", "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"});
    arguments.insert(arguments.end(), {"--set", "models.0.path=/nowhere", "--set", port + "=" + at});
    const CommandResult result = RunDunlin(arguments, 20);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot start: " + port));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("/nowhere")));
  }
  close(taken);
}

}  // namespace
}  // namespace dunlin::integration
