// SPDX-License-Identifier: Apache-2.0
// Logging to stderr, as text or JSON; one line per request, written when it ends. Prompts and outputs are never logged.
// Lines go through a bounded queue (log_queue.h): logging never waits for whoever reads them. Lines for which there is
// no room, and those that cannot be written (a full disk), are counted, and a later line says how many.
// Text of clients is quoted in every field, and no line shows a control character (log_text.h).
// Thread rule: SetUpLogging once, before threads are started; the rest from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/access/access_control.h"
#include "server/observe/logging/line_rate.h"
#include "server/observe/logging/log_queue.h"
#include "server/serving/record/request_record.h"

namespace spdlog {
class logger;
}  // namespace spdlog

namespace dunlin::server {

// level: "debug", "info", "warn" or "error"; format: "text" or "json". Of gRPC's own lines, such as those of handshakes
// that fail, kMaxGrpcLines a second are written, and later how many were not.
inline constexpr int kMaxGrpcLines = 20;
void SetUpLogging(const std::string& level, const std::string& format);

// Changes the level. Any thread.
void SetLogLevel(const std::string& level);

// Waits until every line so far is written, for at most `limit`.
void FlushLog(absl::Duration limit);

// Lines lost since start: dropped because there was no room, or not written because stderr took none.
uint64_t NumLostLogLines();

// A logger that writes to the queue, which outlives it.
std::shared_ptr<spdlog::logger> MakeLogger(LogQueue* queue, const std::string& level, const std::string& format);

// Writes one line per finished request: id, model, profile, tokens, times, status. Calls refused by admission or for
// their deadline come in bursts, so at most one line per second reports their number. What requests have without effect
// is named once, kMaxIgnoredNames names at most.
class RequestLog : public RequestObserver {
 public:
  static constexpr size_t kMaxIgnoredNames = 256;
  void OnTokenInterval(const std::string& /*model*/, const engine::ExecutionProfile& /*profile*/,
                       engine::TimeNs /*interval*/) override {}
  void OnFinished(const RequestRecord& record) override;
  void OnIgnored(std::string_view route, const IgnoredNames& names) override;

 private:
  // Whether to log a line for a call refused for now; if so, the number of such calls since the last line.
  std::optional<int64_t> TakeRefusedCount(engine::TimeNs now);

  std::atomic<int64_t> num_refused_{0};  // since the last line
  std::atomic<engine::TimeNs> next_refusal_line_{0};
  absl::Mutex mutex_;                                                 // guards what follows
  absl::flat_hash_set<std::string> ignored_ ABSL_GUARDED_BY(mutex_);  // "route name", those that have had their line
};

// Writes one line per call that was refused by permission. Of callers without a valid key, who may be many, at most
// kMaxUnknownLines a second are written; a later line says how many were not.
class AuditLog : public AccessObserver {
 public:
  static constexpr int kMaxUnknownLines = 20;
  void OnDenied(const AccessDenial& denial) override;

 private:
  LineRate unknown_{kMaxUnknownLines};
};

// Writes a line for a gRPC connection that was cut, with the reason: at most kMaxLines a second, and then their
// number.
class CutLog {
 public:
  static constexpr int kMaxLines = 5;
  void OnCut(const std::string& address, const char* reason);

 private:
  LineRate lines_{kMaxLines};
};

}  // namespace dunlin::server
