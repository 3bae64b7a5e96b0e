// SPDX-License-Identifier: Apache-2.0
// The record of a generation or embedding call when it ends: the only source of its log line and metrics. Never holds
// the prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/request/types.h"
#include "server/serving/record/ignored_names.h"
#include "server/serving/record/trace_context.h"

namespace dunlin::server {

struct RequestRecord {
  std::string request_id;
  std::string model;                                // as requested; may be unknown. Of an adapter: the one it adapts
  std::string adapter;                              // that runs; "": none
  std::optional<engine::ExecutionProfile> profile;  // none if refused before it was resolved
  absl::Status status;                              // the terminal status of the call
  std::string refusal_reason;                       // name of the reason if refused ("QUEUE_FULL"), else empty
  std::string finish_reason;                        // "stop", "length", "cancelled", "deadline", ... of output 0
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;  // over all outputs
  int32_t max_tokens = 0;
  int32_t num_outputs = 1;
  std::optional<float> temperature;  // of a generation that was planned, as top_p
  std::optional<float> top_p;
  int32_t num_inputs = 0;         // of an embedding; 0 for a generation
  int32_t num_images = 0;         // of a chat
  engine::TimeNs image_time = 0;  // from when its images were known to when they were rows; 0: they never were
  int32_t preemptions = 0;
  engine::TimeNs arrival = 0;  // monotonic; 0 when unknown
  engine::TimeNs first_scheduled = 0;
  engine::TimeNs first_token = 0;
  engine::TimeNs finished = 0;
  std::optional<TraceContext> trace;  // none: no span is made of the call
};

// Notified of the tokens of a call as they are sent, and of every call once when it has ended. Any thread; must not
// block.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // The time between two consecutive tokens of one output of a served model, and what runs it. On the text pool.
  virtual void OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                               engine::TimeNs interval) = 0;
  // Called exactly once for every generation and embedding that reached a front end, refused ones included.
  virtual void OnFinished(const RequestRecord& record) = 0;
  // A request had members, tools or blocks that had no effect. route: one of a fixed set. On the text pool.
  virtual void OnIgnored(std::string_view /*route*/, const IgnoredNames& /*names*/) {}
};

}  // namespace dunlin::server
