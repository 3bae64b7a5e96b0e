// SPDX-License-Identifier: Apache-2.0
// Makes a span of every sampled call that ends and sends it to a sink, in batches, on one thread of its own. The thread
// that ends a call only copies its record into a bounded queue; spans for which there is no room, and those that the
// sink does not take, are dropped and counted.
// Sampling follows the client where the call has a valid traceparent; else it is by the new trace's random id.
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "engine/base/mutex.h"
#include "engine/request/model_engine.h"
#include "server/observe/tracing/span_of_record.h"
#include "server/observe/tracing/span_sink.h"
#include "server/process/monotonic_clock.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

struct SpanExporterOptions {
  std::string service_name = "dunlin";
  std::string version;  // of the server
  int32_t max_queued = 2048;
  int32_t sample_per_million = 1'000'000;         // of the traces that begin here
  absl::Duration batch_delay = absl::Seconds(1);  // a batch that is not full waits for so long
  // Between two attempts to send a batch: they double from the first to the last, with jitter.
  absl::Duration min_backoff = absl::Milliseconds(250);
  absl::Duration max_backoff = absl::Seconds(30);
  engine::ModelEngine::Clock clock = &MonotonicNs;  // of the records
};

class SpanExporter final : public RequestObserver {
 public:
  static constexpr size_t kMaxBatch = 512;
  static constexpr int kMaxAttempts = 6;  // to send a batch, before its spans are dropped

  struct Counts {
    uint64_t exported = 0;
    uint64_t dropped = 0;
  };

  SpanExporter(const SpanExporterOptions& options, std::unique_ptr<SpanSink> sink);
  // Cancels what is being sent; what is queued is dropped.
  ~SpanExporter() override;
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  void OnTokenInterval(const std::string& /*model*/, const engine::ExecutionProfile& /*profile*/,
                       engine::TimeNs /*interval*/) override {}
  // Never blocks but for a copy under a lock. Calls without a trace (refused before their message was read) have no
  // span.
  void OnFinished(const RequestRecord& record) override;

  // Sends what is queued, without retries and without waiting for full batches; false if `limit` passed first.
  bool Flush(absl::Duration limit);

  Counts counts() const;

 private:
  struct Entry {
    RequestRecord record;
    SpanIdentity identity;
  };
  using Batch = otlp::collector::trace::v1::ExportTraceServiceRequest;

  bool Sampled(const TraceContext& trace, const SpanIdentity& drawn) const;
  void Run();
  // The next entries, kMaxBatch at most; empty: stop.
  std::vector<Entry> Take();
  Batch BatchOf(const std::vector<Entry>& entries) const;
  void Send(const std::vector<Entry>& entries);
  // After an attempt that failed: whether to try again, when the pause is over.
  bool PauseBeforeRetry();
  void SayWhetherTaken(const SpanSink::Result& result);

  // Waits for the condition until `deadline` at the latest; whether it holds.
  bool Await(bool (SpanExporter::*condition)() const, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }
  bool HasBatch() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return Hurries() || queue_.size() >= kMaxBatch; }
  bool Hurries() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || num_flushing_ > 0; }
  bool Idle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return queue_.empty() && !sending_; }

  const SpanExporterOptions options_;
  const std::unique_ptr<SpanSink> sink_;
  std::atomic<uint64_t> num_exported_{0};
  std::atomic<uint64_t> num_dropped_{0};

  engine::Mutex mutex_;      // guards what follows; held for a copy of a record at most
  engine::CondVar changed_;  // any of it
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int num_flushing_ ABSL_GUARDED_BY(mutex_) = 0;

  // Of the thread.
  absl::Duration backoff_;
  bool taken_ = true;   // the last batch was
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dunlin::server
