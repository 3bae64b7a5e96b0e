// SPDX-License-Identifier: Apache-2.0
// The outcome of one request, as measured by its client.
#pragma once

#include <cstdint>
#include <string>

#include "tools/load/load_time.h"

namespace dunlin::tools::load {

enum class Ending : uint8_t {
  kCompleted,   // OK, with all its tokens
  kRefused,     // the server rejected it: a full queue, draining, HTTP 429 or 503
  kFailed,      // any other error
  kDeadline,    // --timeout-ms passed
  kCancelled,   // by --cancel-after
  kUnfinished,  // still running at the end of the run, and abandoned
};

struct Outcome {
  size_t group = 0;  // of the mix
  Ending ending = Ending::kFailed;
  // Of kRefused and kFailed: the server's reason ("QUEUE_FULL"), else the status or the transport's error.
  std::string reason;
  std::string message;      // human-readable; may be empty
  bool retry_info = false;  // the refusal carried a retry delay

  TimeNs intended = 0;     // scheduled send time; latencies count from it
  TimeNs sent = 0;         // actual send time; >= intended
  TimeNs first_token = 0;  // 0: none
  TimeNs last_token = 0;
  TimeNs ended = 0;
  TimeNs longest_gap_ns = 0;  // between two messages with tokens

  int32_t prompt_tokens = 0;  // as the server counted them, else as sent
  int32_t output_tokens = 0;
  int32_t token_messages = 0;  // messages that carried at least one token
  double engine_ms = -1;       // as the server reports it, first scheduled to finished; -1: unknown

  TimeNs ttft_ns() const { return first_token - intended; }
  TimeNs e2el_ns() const { return ended - intended; }
  // 0 with fewer than two tokens.
  double tpot_ms() const {
    return output_tokens < 2 ? 0 : ToMs(last_token - first_token) / static_cast<double>(output_tokens - 1);
  }
};

}  // namespace dunlin::tools::load
