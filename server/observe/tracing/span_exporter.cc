// SPDX-License-Identifier: Apache-2.0
#include "server/observe/tracing/span_exporter.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "engine/base/check.h"
#include "engine/base/thread_name.h"
#include "server/serving/record/entropy.h"

namespace dunlin::server {
namespace {

constexpr uint64_t kMillion = 1'000'000;

// Random ids; all zero, which neither may be, has a probability of 2^-64.
SpanIdentity DrawIdentity() {
  std::array<uint8_t, sizeof(TraceId) + sizeof(SpanId)> bytes{};
  DUNLIN_CHECK(getentropy(bytes.data(), bytes.size()) == 0, "the system has random bytes");
  SpanIdentity identity;
  std::copy_n(bytes.begin(), identity.trace_id.size(), identity.trace_id.begin());
  std::copy_n(bytes.begin() + identity.trace_id.size(), identity.span_id.size(), identity.span_id.begin());
  identity.span_id.back() |= 1;
  return identity;
}

engine::TimeNs NanosecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

SpanExporter::SpanExporter(const SpanExporterOptions& options, std::unique_ptr<SpanSink> sink)
    : options_(options), sink_(std::move(sink)), backoff_(options.min_backoff), thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    engine::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  sink_->Cancel();
  thread_.join();
}

bool SpanExporter::Sampled(const TraceContext& trace, const SpanIdentity& drawn) const {
  if (trace.parent.has_value()) return trace.parent->sampled;
  uint64_t random = 0;
  std::memcpy(&random, drawn.trace_id.data(), sizeof random);
  return random % kMillion < static_cast<uint64_t>(options_.sample_per_million);
}

void SpanExporter::OnFinished(const RequestRecord& record) {
  if (!record.trace.has_value()) return;
  SpanIdentity identity = DrawIdentity();
  if (!Sampled(*record.trace, identity)) return;
  if (record.trace->parent.has_value()) identity.trace_id = record.trace->parent->trace_id;
  {
    engine::MutexLock lock(&mutex_);
    if (!stopping_ && queue_.size() < static_cast<size_t>(options_.max_queued)) {
      queue_.push_back({record, identity});
      changed_.SignalAll();
      return;
    }
  }
  num_dropped_.fetch_add(1, std::memory_order_relaxed);
}

bool SpanExporter::Flush(absl::Duration limit) {
  engine::MutexLock lock(&mutex_);
  ++num_flushing_;
  changed_.SignalAll();
  const bool sent = Await(&SpanExporter::Idle, absl::Now() + limit);
  --num_flushing_;
  return sent;
}

SpanExporter::Counts SpanExporter::counts() const {
  return {num_exported_.load(std::memory_order_relaxed), num_dropped_.load(std::memory_order_relaxed)};
}

bool SpanExporter::Await(bool (SpanExporter::*condition)() const, absl::Time deadline) {
  while (!(this->*condition)()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) return (this->*condition)();
  }
  return true;
}

void SpanExporter::Run() {
  engine::NameThread("spans");
  for (std::vector<Entry> entries = Take(); !entries.empty(); entries = Take()) Send(entries);
}

std::vector<SpanExporter::Entry> SpanExporter::Take() {
  std::vector<Entry> entries;
  engine::MutexLock lock(&mutex_);
  sending_ = false;
  changed_.SignalAll();
  Await(&SpanExporter::HasWork, absl::InfiniteFuture());
  Await(&SpanExporter::HasBatch, absl::Now() + options_.batch_delay);
  if (stopping_) {
    num_dropped_.fetch_add(queue_.size(), std::memory_order_relaxed);
    queue_.clear();
    return entries;
  }
  const size_t count = std::min(queue_.size(), kMaxBatch);
  entries.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    entries.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  sending_ = true;
  return entries;
}

SpanExporter::Batch SpanExporter::BatchOf(const std::vector<Entry>& entries) const {
  const engine::TimeNs epoch_offset = NanosecondsSince1970() - options_.clock();
  Batch batch;
  otlp::trace::v1::ResourceSpans* resource = batch.add_resource_spans();
  auto* attributes = resource->mutable_resource()->mutable_attributes();
  AddAttribute("service.name", options_.service_name, attributes);
  AddAttribute("service.version", options_.version, attributes);
  otlp::trace::v1::ScopeSpans* scope = resource->add_scope_spans();
  scope->mutable_scope()->set_name("dunlin");
  scope->mutable_scope()->set_version(options_.version);
  for (const Entry& entry : entries) {
    *scope->add_spans() = SpanOfRecord(entry.record, entry.identity, epoch_offset);
  }
  return batch;
}

void SpanExporter::Send(const std::vector<Entry>& entries) {
  const Batch batch = BatchOf(entries);
  SpanSink::Result result;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    result = sink_->Export(batch);
    SayWhetherTaken(result);
    if (result.outcome != SpanSink::Outcome::kRetry || !PauseBeforeRetry()) break;
  }
  const int64_t count = static_cast<int64_t>(entries.size());
  const bool taken = result.outcome == SpanSink::Outcome::kTaken;
  if (taken) backoff_ = options_.min_backoff;
  const int64_t num_lost = taken ? std::clamp(result.num_rejected, int64_t{0}, count) : count;
  num_exported_.fetch_add(static_cast<uint64_t>(count - num_lost), std::memory_order_relaxed);
  num_dropped_.fetch_add(static_cast<uint64_t>(num_lost), std::memory_order_relaxed);
}

bool SpanExporter::PauseBeforeRetry() {
  // Half of it to all of it, so that servers that lost one collector together do not come back together.
  const absl::Duration pause = backoff_ / 2 + backoff_ / 2 * (static_cast<double>(DrawSeed() % 1024) / 1024.0);
  backoff_ = std::min(2 * backoff_, options_.max_backoff);
  engine::MutexLock lock(&mutex_);
  return !Await(&SpanExporter::Hurries, absl::Now() + pause);
}

void SpanExporter::SayWhetherTaken(const SpanSink::Result& result) {
  const bool taken = result.outcome == SpanSink::Outcome::kTaken;
  if (taken == std::exchange(taken_, taken)) return;
  if (taken) {
    spdlog::info("tracing: the collector takes spans again");
  } else {
    spdlog::warn("tracing: the collector takes no spans: {}", result.why);
  }
}

}  // namespace dunlin::server
