// SPDX-License-Identifier: Apache-2.0
// Child processes for tests: run one to its end, or keep a server running and stop it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dunlin::integration {

struct CommandResult {
  int status = -1;  // exit status; 128 + signal when a signal ended it; 124 when it ran past the limit
  std::string out;
  std::string err;
};

// Runs the binary under test with these arguments. At most `limit_seconds`.
CommandResult RunDunlin(const std::vector<std::string>& arguments, int limit_seconds = 60);
// The same with this text as its input, which ends there.
CommandResult RunDunlinWithInput(const std::vector<std::string>& arguments, const std::string& input);

// A command in a process of its own; killed when the test forgets it.
class RunningCommand {
 public:
  explicit RunningCommand(const std::vector<std::string>& arguments, const std::string& input = "");
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  void Signal(int signal) const;
  // Waits until it has ended, and kills it at the limit.
  CommandResult Wait(int limit_seconds = 60);

 private:
  pid_t pid_ = -1;  // -1 once it has ended
  std::string in_path_;
  std::string out_path_;
  std::string err_path_;
};

// A running `dunlin serve`; killed when the test forgets it.
class ServerProcess {
 public:
  struct Options {
    bool until_ready = true;  // false: only until the ports are open; the models are still loading
    int log = -1;             // descriptor for the log, of a pipe say; -1: a file, which Log reads
    std::string before = {};  // of a shell that becomes the server: "ulimit -v 900000"
  };

  // Starts it on free ports with these further arguments, and waits for READY.
  explicit ServerProcess(const std::string& config, const std::vector<std::string>& arguments = {})
      : ServerProcess(config, arguments, Options()) {}
  ServerProcess(const std::string& config, const std::vector<std::string>& arguments, const Options& options);
  // Starts `dunlin serve` with these arguments alone, which must name free ports.
  struct Arguments {
    std::vector<std::string> list;
  };
  explicit ServerProcess(const Arguments& arguments) : ServerProcess(arguments, Options()) {}
  ServerProcess(const Arguments& arguments, const Options& options);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool ready() const { return !grpc_.empty(); }
  const std::string& grpc() const { return grpc_; }
  const std::string& http() const { return http_; }
  pid_t pid() const { return pid_; }
  std::string Log() const;

  void Signal(int signal) const;
  // Its exit status as in CommandResult, once it has ended, also before it was ready; 124 after the limit.
  int Wait(int limit_seconds);

 private:
  pid_t pid_ = -1;   // -1 once it has ended
  int status_ = -1;  // once it has ended
  std::string log_path_;
  std::string grpc_;
  std::string http_;
};

// Whether the log of a server contains these words within 10 s.
bool ComesToLog(const ServerProcess& server, const std::string& words);

// The body of `GET path` from "host:port"; empty when it cannot be had.
std::string HttpGet(const std::string& address, const std::string& path);

// The value of one series line "name{labels} value" of /metrics; -1 when it is not there.
double MetricValue(const std::string& metrics, const std::string& series);
// Whether all pages of a model's KV pool come to have memory, which they get after READY.
bool PoolIsBacked(const std::string& address, const std::string& model);

// Scrapes a server's HTTP address until the series has this value, 20 s at most; whether it had.
bool ComesToMetric(const std::string& address, const std::string& series, double value);

}  // namespace dunlin::integration
