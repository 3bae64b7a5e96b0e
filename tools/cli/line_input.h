// SPDX-License-Identifier: Apache-2.0
// Lines from a terminal or a pipe, and Ctrl-C as an event of the thread that reads: SIGINT is blocked and read from a
// descriptor, so that no handler runs and no thread is needed. One thread.
#pragma once

#include <string>

namespace dunlin::cli {

// SIGINT as a descriptor, from construction to destruction. Threads that are made in between inherit that it is
// blocked, so this comes before the first channel.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether SIGINT came since the last call.
  bool Take();
  int descriptor() const { return descriptor_; }
  // Ends the process as SIGINT does, for whoever started it to see.
  [[noreturn]] static void EndProcess();

 private:
  int descriptor_;
};

class LineInput {
 public:
  LineInput(int descriptor, Interrupts* interrupts) : descriptor_(descriptor), interrupts_(*interrupts) {}

  enum class Event { kLine, kEnd, kInterrupted };
  // Waits for a line, which comes without its line break; a last one need not have any. kEnd again after kEnd.
  // kInterrupted: what was typed is dropped.
  Event Next(std::string* line);

 private:
  bool TakeLine(std::string* line);

  const int descriptor_;
  Interrupts& interrupts_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace dunlin::cli
