// How one request went, as its client saw it.
#pragma once

#include <cstdint>
#include <string>

#include "server/load/load_time.h"

namespace dunlin::server::load {

enum class Ending : uint8_t {
  kCompleted,   // OK, with all its tokens
  kRefused,     // the server would not take it: a full queue, draining, HTTP 429 or 503
  kFailed,      // any other error
  kDeadline,    // --timeout-ms passed
  kCancelled,   // by --cancel-after
  kUnfinished,  // still running at the end of the run, and given up then
};

struct Outcome {
  size_t group = 0;  // of the mix
  Ending ending = Ending::kFailed;
  // Of kRefused and kFailed: the server's reason ("QUEUE_FULL"), else the status or the transport's error.
  std::string reason;
  std::string message;      // for a person; may be empty
  bool retry_info = false;  // the refusal said when to come back

  TimeNs intended = 0;     // when it should have been sent: what latencies count from
  TimeNs sent = 0;         // when it was; >= intended
  TimeNs first_token = 0;  // 0: none came
  TimeNs last_token = 0;
  TimeNs ended = 0;
  TimeNs longest_gap_ns = 0;  // between two messages with tokens

  int32_t prompt_tokens = 0;  // as the server counted them, else as many as were sent
  int32_t output_tokens = 0;
  int32_t token_messages = 0;  // messages that carried at least one token
  double engine_ms = -1;       // as the server says: first scheduled to finish; -1: it does not

  TimeNs ttft_ns() const { return first_token - intended; }
  TimeNs e2el_ns() const { return ended - intended; }
  // 0 with less than two tokens.
  double tpot_ms() const {
    return output_tokens < 2 ? 0 : ToMs(last_token - first_token) / static_cast<double>(output_tokens - 1);
  }
};

}  // namespace dunlin::server::load
