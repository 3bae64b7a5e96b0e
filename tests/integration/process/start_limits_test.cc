// SPDX-License-Identifier: Apache-2.0
// A start under limits of addresses or of threads: the server serves, or it ends with a message that has the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

using testing::HasSubstr;

constexpr char kModel[] = DUNLIN_SOURCE_DIR "/models/demo";

ServerProcess::Arguments Serve(const std::vector<std::string>& models) {
  ServerProcess::Arguments arguments{{"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}};
  arguments.list.insert(arguments.list.end(), models.begin(), models.end());
  return arguments;
}

// A server that is ready answers, and stops as usual.
void ExpectServes(const std::string& model, ServerProcess* server) {
  const CommandResult result =
      RunDunlin({"generate", "--address", server->grpc(), "--model", model, "--max-tokens", "8", "The dunlin"});
  EXPECT_EQ(result.status, 0) << result.err << server->Log();
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(20), 0) << server->Log();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What a start takes depends on the machine: each of these values ends one way or the other, the first and the last
// ones in a known one.
TEST(StartLimits, ALimitOfAddressesIsPlannedWithOrNamed) {
  for (const char* name : {"ulimit -v", "ulimit -d"}) {
    std::vector<bool> served;
    for (const int kib : {150000, 300000, 450000, 540000, 600000, 750000, 1100000, 4000000}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(kib));
      ServerProcess::Options options;
      options.before = std::string(name) + " " + std::to_string(kib);
      ServerProcess server(Serve({kModel}), options);
      served.push_back(server.ready());
      if (server.ready()) {
        ExpectServes("demo", &server);
      } else {
        EXPECT_EQ(server.Wait(1), 1) << server.Log();
        EXPECT_THAT(server.Log(), HasSubstr("cannot start: "));
        EXPECT_THAT(server.Log(), HasSubstr(kib < 200000 ? "ulimit -v and -d" : name));
      }
    }
    EXPECT_FALSE(served.front());
    EXPECT_TRUE(served.back());
  }
}
#endif

// What a process inherits where a standard stream is closed would be what the server opens next.
TEST(StartLimits, AStandardStreamThatIsClosedIsNothingThatIsOpenedLater) {
  ServerProcess::Options options;
  options.before = "exec 0<&- 2>&-";
  ServerProcess server(Serve({kModel}), options);
  ASSERT_TRUE(server.ready());
  for (const char* stream : {"0", "2"}) {
    const std::filesystem::path link = "/proc/" + std::to_string(server.pid()) + "/fd/" + stream;
    EXPECT_EQ(std::filesystem::read_symlink(link), "/dev/null") << stream;
  }
  ExpectServes("demo", &server);
}

TEST(StartLimits, AClientWithoutDescriptorsSaysSo) {
  for (const std::string command : {"generate --model m x", "healthcheck", "load --model m --rate 1 --duration 1"}) {
    const std::string program = "exec 2>&1; ulimit -n 6; exec " DUNLIN_BINARY " " + command + " --address 127.0.0.1:1";
    FILE* const output = popen(program.c_str(), "r");
    ASSERT_NE(output, nullptr);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), output));
    const int status = pclose(output);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << command << status;
    EXPECT_THAT(text, HasSubstr("more file descriptors (Too many open files); it needs 5 at least: ulimit -n"));
  }
}

// A control group that bounds threads, beside the root's others; it needs a system where this process may make one.
class ThreadGroup {
 public:
  ThreadGroup() {
    const std::filesystem::path mount = "/sys/fs/cgroup";
    const bool unified = std::filesystem::exists(mount / "cgroup.controllers");
    if (unified) std::ofstream(mount / "cgroup.subtree_control") << "+pids";
    folder_ = mount / (unified ? "" : "pids") / ("dunlin_start_limits_" + std::to_string(getpid()));
    std::error_code error;
    made_ = std::filesystem::create_directory(folder_, error) && std::filesystem::exists(folder_ / "pids.max");
  }
  ~ThreadGroup() { rmdir(folder_.c_str()); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  bool made() const { return made_; }
  // For a process that begins in it, with so many threads at most.
  ServerProcess::Options With(int threads) const {
    std::ofstream(folder_ / "pids.max") << threads;
    ServerProcess::Options options;
    options.before = "echo $$ > " + (folder_ / "cgroup.procs").string();
    return options;
  }

 private:
  std::filesystem::path folder_;
  bool made_ = false;
};

// What a server that was refused says that it needs; 0: nothing.
int Needed(ServerProcess* server) {
  EXPECT_EQ(server->Wait(1), 1) << server->Log();
  const std::string log = server->Log();
  EXPECT_THAT(log, HasSubstr("more threads"));
  EXPECT_THAT(log, HasSubstr("ulimit -u, pids.max"));
  const size_t at = log.find("it needs ");
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + 9));
}

constexpr int kAlreadyThere = 2;  // the main thread and the log's, when the config's threads are counted

// Refused with what any server needs, then with what these models need, at last served.
int LeastThreadsFor(const std::vector<std::string>& models, const ThreadGroup& group) {
  ServerProcess without(Serve(models), group.With(4));
  const int of_any = Needed(&without);
  ServerProcess with_few(Serve(models), group.With(of_any + 1));
  const int needed = Needed(&with_few);
  EXPECT_GT(needed, of_any);
  ServerProcess one_less(Serve(models), group.With(needed + kAlreadyThere - 1));
  EXPECT_EQ(Needed(&one_less), needed);
  ServerProcess server(Serve(models), group.With(needed + kAlreadyThere));
  EXPECT_TRUE(server.ready()) << server.Log();
  if (server.ready()) ExpectServes("demo", &server);
  return needed;
}

// How many compute threads a server has where nobody gives their number.
int AutomaticThreads() {
  ServerProcess server(Serve({kModel}));
  std::smatch match;
  const std::string log = server.Log();
  EXPECT_TRUE(std::regex_search(log, match, std::regex(R"(device cpu \(\w+, (\d+) threads?\))"))) << log;
  return match.empty() ? 0 : std::stoi(match[1]);
}

TEST(StartLimits, ComputeThreadsAreCountedAlsoWhereTheirNumberIsAutomatic) {
  const ThreadGroup group;
  if (!group.made()) GTEST_SKIP() << "this process may make no control group of pids";
  ServerProcess without(Serve({kModel}), group.With(4));
  const int of_any = Needed(&without);
  const auto needed = [&](int compute_threads) {
    ServerProcess server(Serve({kModel, "--set", "compute.threads=" + std::to_string(compute_threads)}),
                         group.With(of_any + 1));
    return Needed(&server);
  };
  const int automatic = AutomaticThreads();
  EXPECT_EQ(needed(0), needed(automatic));
  EXPECT_EQ(needed(0), needed(1) + automatic - 1);
}

TEST(StartLimits, AServerHasTheThreadsThatItsModelsNeedOrSaysSo) {
  const ThreadGroup group;
  if (!group.made()) GTEST_SKIP() << "this process may make no control group of pids";
  const std::filesystem::path further = testing::TempDir() + "dunlin_start_limits_models";
  std::vector<std::string> models = {kModel};
  const int of_one = LeastThreadsFor(models, group);
  for (const char* name : {"second", "third"}) {
    std::filesystem::create_directories(further);
    std::filesystem::remove(further / name);
    std::filesystem::create_directory_symlink(kModel, further / name);
    models.push_back((further / name).string());
  }
  EXPECT_EQ(LeastThreadsFor(models, group), of_one + 2 * 3) << "three for each further model";
  std::filesystem::remove_all(further);
}

}  // namespace
}  // namespace dunlin::integration
