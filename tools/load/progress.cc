// SPDX-License-Identifier: Apache-2.0
#include "tools/load/progress.h"

#include <iostream>

#include "absl/strings/str_format.h"

namespace dunlin::tools::load {

Progress::~Progress() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

std::function<void(const Recorder::Live& live, double seconds)> Progress::on_tick() {
  if (!shown_) return {};
  return [this](const Recorder::Live& live, double seconds) { Show(live, seconds); };
}

void Progress::Show(const Recorder::Live& live, double seconds) {
  const double span = seconds - last_seconds_;
  const double rate = span > 0 ? static_cast<double>(live.tokens - last_tokens_) / span : 0;
  last_seconds_ = seconds;
  last_tokens_ = live.tokens;
  std::cerr
      << absl::StrFormat(
             "\r\033[K%6.1f s  %d running  %d done  %d refused  %d failed  %d late  %.0f tokens/s  TTFT p50 %.1f ms",
             seconds, live.in_flight, live.completed, live.refused, live.failed, live.deadline, rate, live.ttft_p50_ms)
      << std::flush;
}

}  // namespace dunlin::tools::load
