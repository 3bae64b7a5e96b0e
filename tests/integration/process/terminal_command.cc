// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/terminal_command.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

extern char** environ;

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit(20);
constexpr int kReadMs = 20;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment without what decides about colours, and with these variables.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& added) {
  std::vector<std::string> all = {"TERM=xterm"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TERM=", 5) != 0 && std::strncmp(*entry, "NO_COLOR=", 9) != 0) all.emplace_back(*entry);
  }
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

}  // namespace

TerminalCommand::TerminalCommand(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment) {
  std::vector<std::string> all = {DUNLIN_BINARY};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = Pointers(all);
  const std::vector<std::string> variables = EnvironmentWith(environment);
  const std::vector<char*> envp = Pointers(variables);
  pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
  if (pid_ == 0) {
    execve(DUNLIN_BINARY, argv.data(), envp.data());
    _exit(127);
  }
}

TerminalCommand::~TerminalCommand() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(terminal_);
}

void TerminalCommand::Type(const std::string& keys) {
  for (size_t begin = 0; begin < keys.size();) {
    const ssize_t count = write(terminal_, keys.data() + begin, keys.size() - begin);
    if (count <= 0) return;
    begin += static_cast<size_t>(count);
  }
}

void TerminalCommand::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

void TerminalCommand::Read() {
  pollfd source = {terminal_, POLLIN, 0};
  if (poll(&source, 1, kReadMs) <= 0) return;
  char bytes[4096];
  const ssize_t count = read(terminal_, bytes, sizeof(bytes));
  if (count > 0) screen_.append(bytes, static_cast<size_t>(count));
}

bool TerminalCommand::Shows(const std::string& words) {
  for (const auto end = Clock::now() + kLimit; Clock::now() < end; Read()) {
    const size_t at = screen_.find(words, found_);
    if (at == std::string::npos) continue;
    found_ = at + words.size();
    return true;
  }
  return false;
}

int TerminalCommand::Wait() {
  for (const auto end = Clock::now() + kLimit; pid_ > 0 && Clock::now() < end; Read()) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) continue;
    pid_ = -1;
    Read();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return 124;
}

}  // namespace dunlin::integration
