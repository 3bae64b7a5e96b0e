// The live line of a run on a terminal, written over itself.
#pragma once

#include "server/load/runner.h"

namespace dunlin::server::load {

class Progress {
 public:
  // Writes to stderr when `shown`, else nothing.
  explicit Progress(bool shown) : shown_(shown) {}
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For Runner::Run; valid as long as this.
  Runner::OnTick on_tick();

 private:
  void Show(const Recorder::Live& live, double seconds);

  const bool shown_;
  double last_seconds_ = 0;
  int64_t last_tokens_ = 0;
};

}  // namespace dunlin::server::load
