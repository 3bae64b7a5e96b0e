// SPDX-License-Identifier: Apache-2.0
// The progress line of a run on a terminal, redrawn in place.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/load/recorder.h"

namespace dunlin::tools::load {

class Progress {
 public:
  // Writes to stderr when `shown`, else nothing.
  explicit Progress(bool shown) : shown_(shown) {}
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For Runner::Run; valid as long as this.
  std::function<void(const Recorder::Live& live, double seconds)> on_tick();

 private:
  void Show(const Recorder::Live& live, double seconds);

  const bool shown_;
  double last_seconds_ = 0;
  int64_t last_tokens_ = 0;
};

}  // namespace dunlin::tools::load
