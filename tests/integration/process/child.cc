// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/child.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

extern char** environ;

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;

std::string TempPath(const char* what) {
  static std::atomic<int> count{0};  // clients may be started from several threads
  return "/tmp/dunlin_test_" + std::to_string(getpid()) + "_" + std::to_string(count++) + what;
}

std::string Slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The binary with these arguments, after the shell's commands if there are any.
std::vector<std::string> CommandOf(const std::string& before, const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  if (!before.empty()) command = {"/bin/sh", "-c", before + R"(; exec "$0" "$@")"};
  command.emplace_back(DUNLIN_BINARY);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// in: a file; "": none. err_descriptor: stderr in place of the file `err`; -1: none.
pid_t Spawn(const std::vector<std::string>& command, const std::string& in, const std::string& out,
            const std::string& err, int err_descriptor = -1) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.empty() ? "/dev/null" : in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (err_descriptor >= 0) {
    posix_spawn_file_actions_adddup2(&actions, err_descriptor, 2);
  } else {
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  pid_t pid = -1;
  if (posix_spawn(&pid, argv.front(), &actions, nullptr, argv.data(), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// -1 while it runs.
int TryReap(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int WaitFor(pid_t pid, int limit_seconds) {
  const auto end = Clock::now() + std::chrono::seconds(limit_seconds);
  while (Clock::now() < end) {
    if (const int status = TryReap(pid); status >= 0) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 124;
}

ServerProcess::Arguments WithConfig(const std::string& config, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {
      "--config", config, "--set", "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return {all};
}

void KillAndReap(pid_t pid) {
  kill(pid, SIGKILL);
  int ignored = 0;
  waitpid(pid, &ignored, 0);
}

}  // namespace

CommandResult RunDunlin(const std::vector<std::string>& arguments, int limit_seconds) {
  return RunningCommand(arguments).Wait(limit_seconds);
}

CommandResult RunDunlinWithInput(const std::vector<std::string>& arguments, const std::string& input) {
  return RunningCommand(arguments, input).Wait();
}

RunningCommand::RunningCommand(const std::vector<std::string>& arguments, const std::string& input)
    : in_path_(input.empty() ? "" : TempPath("_in")), out_path_(TempPath("_out")), err_path_(TempPath("_err")) {
  if (!input.empty()) std::ofstream(in_path_, std::ios::binary) << input;
  pid_ = Spawn(CommandOf("", arguments), in_path_, out_path_, err_path_);
}

RunningCommand::~RunningCommand() {
  if (pid_ > 0) KillAndReap(pid_);
  if (!in_path_.empty()) unlink(in_path_.c_str());
  unlink(out_path_.c_str());
  unlink(err_path_.c_str());
}

void RunningCommand::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

CommandResult RunningCommand::Wait(int limit_seconds) {
  CommandResult result;
  if (pid_ > 0) {
    result.status = WaitFor(pid_, limit_seconds);
    if (result.status == 124) KillAndReap(pid_);
    pid_ = -1;
  }
  result.out = Slurp(out_path_);
  result.err = Slurp(err_path_);
  return result;
}

ServerProcess::ServerProcess(const std::string& config, const std::vector<std::string>& arguments,
                             const Options& options)
    : ServerProcess(WithConfig(config, arguments), options) {}

ServerProcess::ServerProcess(const Arguments& arguments, const Options& options) : log_path_(TempPath("_log")) {
  std::vector<std::string> all = {"serve"};
  all.insert(all.end(), arguments.list.begin(), arguments.list.end());
  const std::string ready_path = TempPath("_ready");
  pid_ = Spawn(CommandOf(options.before, all), "", ready_path, log_path_, options.log);
  const std::regex ready_line("(?:READY|ports answer:) grpc=(\\S+) http=(\\S+)\n");
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (pid_ > 0 && Clock::now() < end) {
    std::smatch match;
    const std::string text = Slurp(options.until_ready ? ready_path : log_path_);
    if (std::regex_search(text, match, ready_line)) {
      grpc_ = match[1];
      http_ = match[2];
      break;
    }
    status_ = TryReap(pid_);
    if (status_ >= 0) pid_ = -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  unlink(ready_path.c_str());
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) KillAndReap(pid_);
  unlink(log_path_.c_str());
}

std::string ServerProcess::Log() const {
  return Slurp(log_path_);
}

void ServerProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

int ServerProcess::Wait(int limit_seconds) {
  if (pid_ < 0) return status_;
  const int status = WaitFor(pid_, limit_seconds);
  if (status == 124) return status;
  pid_ = -1;
  status_ = status;
  return status;
}

// Whether the log of a server contains these words within 10 s.
bool ComesToLog(const ServerProcess& server, const std::string& words) {
  for (int i = 0; i < 500 && server.Log().find(words) == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return server.Log().find(words) != std::string::npos;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  inet_pton(AF_INET, "127.0.0.1", &server.sin_addr);
  std::string answer;
  if (connect(descriptor, reinterpret_cast<sockaddr*>(&server), sizeof(server)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (write(descriptor, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      char buffer[4096];
      for (ssize_t got = 0; (got = read(descriptor, buffer, sizeof(buffer))) > 0;) {
        answer.append(buffer, static_cast<size_t>(got));
      }
    }
  }
  close(descriptor);
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

double MetricValue(const std::string& metrics, const std::string& series) {
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(series + " ", 0) == 0) return std::atof(line.c_str() + series.size() + 1);
  }
  return -1;
}

bool ComesToMetric(const std::string& address, const std::string& series, double value) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (Clock::now() < end) {
    if (MetricValue(HttpGet(address, "/metrics"), series) == value) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool PoolIsBacked(const std::string& address, const std::string& model) {
  const std::string label = "{model_name=\"" + model + "\"}";
  const double total = MetricValue(HttpGet(address, "/metrics"), "dunlin_kv_pages_total" + label);
  return total > 0 && ComesToMetric(address, "dunlin_kv_pages_backed" + label, total);
}

}  // namespace dunlin::integration
