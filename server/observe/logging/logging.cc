// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/logging.h"

#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/base/status_name.h"
#include "engine/base/string_view.h"
#include "server/observe/logging/log_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxMessageBytes = 500;
constexpr engine::TimeNs kRefusalLinePeriod = 1'000'000'000;
constexpr size_t kMaxQueuedBytes = size_t{1} << 20;  // of log lines; some 4000 requests

// The message as text that is always a single line.
class TextMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = WithoutControls({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<TextMessage>(); }
};

// The same as a JSON string.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = WithoutControls({message.payload.data(), message.payload.size()});
    const std::string quoted = nlohmann::json(text).dump(-1, ' ', true);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

std::string Milliseconds(engine::TimeNs from, engine::TimeNs to) {
  return from == 0 || to == 0 ? "-" : absl::StrFormat("%.3f", static_cast<double>(to - from) * 1e-6);
}

std::string Profile(const RequestRecord& record) {
  if (!record.profile.has_value()) return "-";
  return absl::StrCat(Name(record.profile->device), "/", Name(record.profile->attention_backend), "/",
                      Name(record.profile->precision));
}

int64_t Second() {
  return absl::ToUnixSeconds(absl::Now());
}

// Forwards gRPC core's messages (protocol violations by peers, failed handshakes, socket errors) at a severity below
// our warnings.
void LogGrpcLine(gpr_log_func_args* line) {
  static auto* const rate = new LineRate(kMaxGrpcLines);  // never destroyed: gRPC logs until the very end
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::info : spdlog::level::debug;
  int64_t left_out = 0;
  if (!spdlog::should_log(level) || !rate->Take(Second(), &left_out)) return;
  if (left_out > 0) spdlog::log(level, "grpc: {} more lines", left_out);
  spdlog::log(level, "grpc: {}", LogQuoted(line->message, kMaxMessageBytes));
}

// Formats lines into the queue.
class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueSink(LogQueue* queue) : queue_(queue) {}

 private:
  // The lines that say how many were lost go with the next one that fits, once stderr takes lines again.
  void sink_it_(const spdlog::details::log_msg& message) override {
    const LogLosses losses = queue_->losses();
    const auto notice = [&](const std::string& text, spdlog::memory_buf_t* lines) {
      formatter_->format({message.time, {}, message.logger_name, spdlog::level::warn, text}, *lines);
    };
    spdlog::memory_buf_t lines;
    if (unreported_ > 0) {
      notice(absl::StrCat(unreported_, " log lines dropped: stderr is not read fast enough"), &lines);
    }
    const bool unwritten = losses.unwritten > reported_unwritten_ && losses.writable;
    if (unwritten) {
      notice(absl::StrCat(losses.unwritten - reported_unwritten_,
                          " log lines lost: stderr could not be written: ", std::strerror(losses.error)),
             &lines);
    }
    formatter_->format(message, lines);
    if (!queue_->Push({lines.data(), lines.size()})) {
      ++unreported_;
      return;
    }
    unreported_ = 0;
    if (unwritten) reported_unwritten_ = losses.unwritten;
  }
  void flush_() override {}

  LogQueue* const queue_;
  uint64_t unreported_ = 0;          // lines dropped since a line last said so
  uint64_t reported_unwritten_ = 0;  // of LogLosses::unwritten, those that a line has told of
};

// Of the process. Never destroyed: threads may log until the very end.
LogQueue& StderrQueue() {
  static auto* const queue = new LogQueue(STDERR_FILENO, kMaxQueuedBytes);
  return *queue;
}

// Whether it is one of those that an overloaded server refuses in bursts: by admission, before it has an id, or because
// of its deadline.
bool IsRefusedForNow(const RequestRecord& record) {
  if (record.refusal_reason == Traits(Reason::kWouldMissDeadline).name) return true;
  return record.request_id.empty() && (absl::IsResourceExhausted(record.status) || absl::IsUnavailable(record.status));
}

}  // namespace

std::shared_ptr<spdlog::logger> MakeLogger(LogQueue* queue, const std::string& level, const std::string& format) {
  auto logger = std::make_shared<spdlog::logger>("dunlin", std::make_shared<QueueSink>(queue));
  logger->set_level(spdlog::level::from_str(level));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == "json") {
    formatter->add_flag<JsonMessage>('*').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->add_flag<TextMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %l %*");
  }
  logger->set_formatter(std::move(formatter));
  return logger;
}

void SetUpLogging(const std::string& level, const std::string& format) {
  spdlog::set_default_logger(MakeLogger(&StderrQueue(), level, format));
  gpr_set_log_function(&LogGrpcLine);
}

void FlushLog(absl::Duration limit) {
  StderrQueue().Flush(limit);
}

uint64_t NumLostLogLines() {
  const LogLosses losses = StderrQueue().losses();
  return losses.dropped + losses.unwritten;
}

void SetLogLevel(const std::string& level) {
  spdlog::default_logger_raw()->set_level(spdlog::level::from_str(level));
}

void AuditLog::OnDenied(const AccessDenial& denial) {
  int64_t left_out = 0;
  if (denial.key == kUnknownKey && !unknown_.Take(Second(), &left_out)) return;
  if (left_out > 0) spdlog::warn("access denied: {} more calls without a valid key", left_out);
  spdlog::warn("access denied key={} endpoint=\"{}\" peer={} reason={}", denial.key, denial.endpoint,
               LogQuoted(denial.peer, kMaxNameBytes), LogQuoted(denial.reason, kMaxMessageBytes));
}

void CutLog::OnCut(const std::string& address, const char* reason) {
  int64_t left_out = 0;
  if (!lines_.Take(Second(), &left_out)) return;
  if (left_out > 0) spdlog::warn("gRPC connections cut: {} more", left_out);
  spdlog::warn("gRPC connection from {} cut: {}", address, reason);
}

std::optional<int64_t> RequestLog::TakeRefusedCount(engine::TimeNs now) {
  num_refused_.fetch_add(1, std::memory_order_relaxed);
  engine::TimeNs next = next_refusal_line_.load(std::memory_order_relaxed);
  if (now < next || !next_refusal_line_.compare_exchange_strong(next, now + kRefusalLinePeriod)) return std::nullopt;
  return num_refused_.exchange(0, std::memory_order_relaxed);
}

// Names are safe in a line: IgnoredNames::Add.
void RequestLog::OnIgnored(std::string_view route, const IgnoredNames& names) {
  for (const std::string& name : names.names()) {
    {
      absl::MutexLock lock(&mutex_);
      if (ignored_.size() == kMaxIgnoredNames) return;
      if (!ignored_.insert(absl::StrCat(engine::AbslView(route), " ", name)).second) continue;
    }
    spdlog::info("{}: \"{}\" of requests has no effect here (protocols.openai.strict)", route, name);
  }
}

void RequestLog::OnFinished(const RequestRecord& record) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  if (IsRefusedForNow(record)) {
    const std::optional<int64_t> refused = TakeRefusedCount(record.finished);
    if (!refused.has_value()) return;
    spdlog::info("{} requests refused before they began, the last with {}", *refused, record.refusal_reason);
    return;
  }
  // The only word of a refusal whose message may quote the client.
  const std::string reason = ReasonName(record.status);
  const std::string line = absl::StrCat(
      "request id=", LogQuoted(record.request_id, kMaxNameBytes), " model=", LogQuoted(record.model, kMaxNameBytes),
      record.adapter.empty() ? "" : absl::StrCat(" adapter=", LogQuoted(record.adapter, kMaxNameBytes)),
      " profile=", Profile(record), " prompt_tokens=", record.prompt_tokens, " cached_tokens=", record.cached_tokens,
      " completion_tokens=", record.completion_tokens,
      " queue_ms=", Milliseconds(record.arrival, record.first_scheduled),
      " ttft_ms=", Milliseconds(record.arrival, record.first_token),
      " total_ms=", Milliseconds(record.arrival, record.finished), " preemptions=", record.preemptions,
      " status=", engine::StatusName(record.status.code()),
      record.finish_reason.empty() ? "" : absl::StrCat(" finish=", record.finish_reason),
      reason.empty() ? "" : absl::StrCat(" reason=", reason),
      record.status.ok() || QuotesClient(record.status)
          ? ""
          : absl::StrCat(" message=", LogQuoted(engine::StdView(record.status.message()), kMaxMessageBytes)));
  spdlog::info("{}", line);
}

}  // namespace dunlin::server
