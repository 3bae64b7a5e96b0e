// SPDX-License-Identifier: Apache-2.0
// One request in flight: its client reports events in order; its end is passed to the recorder and the runner.
// Thread rule: the client calls from any thread, one call at a time; GiveUp from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/load/outcome.h"
#include "tools/load/recorder.h"

namespace dunlin::tools::load {

struct CallOptions {
  size_t group = 0;
  TimeNs intended = 0;
  int32_t prompt_tokens = 0;        // as sent; 0: unknown
  int32_t cancel_after_tokens = 0;  // 0: never
  Recorder* recorder = nullptr;     // null: the request is not counted (warm-up)
  std::function<void()> on_end;     // called once, last
};

class Call {
 public:
  explicit Call(CallOptions options);

  // The request is being sent. Called first.
  void OnSent();
  // A message that carries num_tokens >= 1. False: the request is to be cancelled now.
  [[nodiscard]] bool OnTokens(int32_t num_tokens);
  // The server's own counts, with or after the last token. prompt_tokens 0: unknown.
  void SetUsage(int32_t prompt_tokens, int32_t output_tokens);
  void SetEngineMs(double engine_ms) { outcome_.engine_ms = engine_ms; }

  void Complete();
  // ending is not kCompleted; kFailed becomes the argument of GiveUp where that was called.
  void End(Ending ending, const std::string& reason, const std::string& message, bool retry_info = false);

  // The runner cancels the request: `as` is kCancelled or kUnfinished. The first call counts.
  void GiveUp(Ending as);

  int32_t output_tokens() const { return outcome_.output_tokens; }

 private:
  void Finish();

  const CallOptions options_;
  std::atomic<Ending> given_up_{Ending::kCompleted};  // kCompleted: it was not
  Outcome outcome_;
};

}  // namespace dunlin::tools::load
