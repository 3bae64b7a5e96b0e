// SPDX-License-Identifier: Apache-2.0
// The binary under test on a pseudo-terminal, with somebody who types. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dunlin::integration {

inline constexpr char kCtrlC[] = "\x03";
inline constexpr char kCtrlD[] = "\x04";

class TerminalCommand {
 public:
  // environment: "NAME=value" to set for the command besides TERM=xterm.
  explicit TerminalCommand(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});
  ~TerminalCommand();
  TerminalCommand(const TerminalCommand&) = delete;
  TerminalCommand& operator=(const TerminalCommand&) = delete;

  void Type(const std::string& keys);
  void Signal(int signal) const;
  // Whether these words come to the screen within 20 s, behind what the last successful call found.
  bool Shows(const std::string& words);
  // All that came to the screen, the echo of what was typed included.
  const std::string& screen() const { return screen_; }
  // Its exit status as in CommandResult, once it has ended; 124 after 20 s.
  int Wait();

 private:
  // Adds what the command wrote; waits 20 ms at most.
  void Read();

  pid_t pid_ = -1;  // -1 once it has ended
  int terminal_ = -1;
  std::string screen_;
  size_t found_ = 0;  // end of what Shows found
};

}  // namespace dunlin::integration
