// One request under way: its client reports what comes, in order; its end goes to the recorder and to the runner.
// Thread rule: the client's calls one at a time, from any thread; GiveUp from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "server/load/outcome.h"
#include "server/load/recorder.h"

namespace dunlin::server::load {

struct CallOptions {
  size_t group = 0;
  TimeNs intended = 0;
  int32_t prompt_tokens = 0;        // as sent; 0: not known
  int32_t cancel_after_tokens = 0;  // 0: never
  Recorder* recorder = nullptr;     // null: the request is not counted (warm-up)
  std::function<void()> on_end;     // the last thing that is called, once
};

class Call {
 public:
  explicit Call(CallOptions options);

  // The request goes out now. Before anything else.
  void OnSent();
  // A message that carries num_tokens >= 1. False: the request is to be cancelled now.
  [[nodiscard]] bool OnTokens(int32_t num_tokens);
  // What the server says itself, with or after the last token. prompt_tokens 0: it does not say.
  void SetUsage(int32_t prompt_tokens, int32_t output_tokens);
  void SetEngineMs(double engine_ms) { outcome_.engine_ms = engine_ms; }

  void Complete();
  // ending is not kCompleted; kFailed becomes kCancelled or kUnfinished when the request was given up here.
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

}  // namespace dunlin::server::load
