// SPDX-License-Identifier: Apache-2.0
// The exporter in front of a sink that takes, refuses or holds batches: what is sent, what is dropped, and that nothing
// waits for the sink.
#include "server/observe/tracing/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "engine/base/mutex.h"
#include "tests/server/observe/tracing/attributes.h"

namespace dunlin::server {
namespace {

using otlp::collector::trace::v1::ExportTraceServiceRequest;
using otlp::trace::v1::Span;
using Outcome = SpanSink::Outcome;

constexpr absl::Duration kPatience = absl::Seconds(20);

// What the sink has seen and does; outlives it.
class SinkScript {
 public:
  // Attempts end when this does.
  void Hold(bool hold) { Set(&held_, hold); }
  void Cancel() { Set(&cancelled_, true); }
  // The results of the next attempts; later ones are taken.
  void Answer(std::vector<SpanSink::Result> next) {
    engine::MutexLock lock(&mutex_);
    results_ = std::move(next);
  }
  bool WaitForAttempts(size_t count) {
    engine::MutexLock lock(&mutex_);
    const absl::Time deadline = absl::Now() + kPatience;
    while (attempts_.size() < count && !changed_.WaitWithDeadline(&mutex_, deadline)) {
    }
    return attempts_.size() >= count;
  }
  std::vector<ExportTraceServiceRequest> Attempts() {
    engine::MutexLock lock(&mutex_);
    return attempts_;
  }

  SpanSink::Result Take(const ExportTraceServiceRequest& batch) {
    engine::MutexLock lock(&mutex_);
    attempts_.push_back(batch);
    changed_.SignalAll();
    while (held_ && !cancelled_) changed_.Wait(&mutex_);
    if (cancelled_) return {Outcome::kRetry, 0, "cancelled"};
    if (results_.empty()) return {};
    const SpanSink::Result result = results_.front();
    results_.erase(results_.begin());
    return result;
  }

 private:
  void Set(bool* flag, bool value) {
    engine::MutexLock lock(&mutex_);
    *flag = value;
    changed_.SignalAll();
  }

  engine::Mutex mutex_;  // guards what follows
  engine::CondVar changed_;
  bool held_ = false;
  bool cancelled_ = false;
  std::vector<SpanSink::Result> results_;
  std::vector<ExportTraceServiceRequest> attempts_;
};

class ScriptedSink final : public SpanSink {
 public:
  explicit ScriptedSink(SinkScript* script) : script_(script) {}
  Result Export(const ExportTraceServiceRequest& batch) override { return script_->Take(batch); }
  void Cancel() override { script_->Cancel(); }

 private:
  SinkScript* const script_;
};

SpanExporterOptions Options() {
  SpanExporterOptions options;
  options.version = "1.2.3";
  options.batch_delay = absl::Milliseconds(1);
  options.min_backoff = absl::Milliseconds(1);
  options.max_backoff = absl::Milliseconds(4);
  return options;
}

class Exporter : public ::testing::Test {
 protected:
  void Start(const SpanExporterOptions& options = Options()) {
    exporter_ = std::make_unique<SpanExporter>(options, std::make_unique<ScriptedSink>(&script_));
  }
  void End(const std::string& id, const TraceContext& trace = {}) {
    RequestRecord record;
    record.request_id = id;
    record.arrival = MonotonicNs();
    record.finished = record.arrival + 1000;
    record.trace = trace;
    exporter_->OnFinished(record);
  }
  // Every span of a batch that was tried.
  std::vector<Span> Spans() {
    std::vector<Span> spans;
    for (const ExportTraceServiceRequest& attempt : script_.Attempts()) {
      for (const Span& span : attempt.resource_spans(0).scope_spans(0).spans()) spans.push_back(span);
    }
    return spans;
  }
  void ExpectCounts(uint64_t exported, uint64_t dropped) {
    EXPECT_EQ(exporter_->counts().exported, exported);
    EXPECT_EQ(exporter_->counts().dropped, dropped);
  }

  SinkScript script_;
  std::unique_ptr<SpanExporter> exporter_;
};

TraceContext Parent(bool sampled) {
  return {TraceParent{{7}, {9}, sampled}, "a=b"};
}

TEST_F(Exporter, SendsSpansInTheOrderInWhichCallsEnded) {
  Start();
  for (int i = 0; i < 100; ++i) End(absl::StrCat(i));
  ASSERT_TRUE(exporter_->Flush(kPatience));
  const std::vector<Span> spans = Spans();
  ASSERT_EQ(spans.size(), 100U);
  std::set<std::string> ids;
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(AttributesOf(spans[i]).at("gen_ai.request.id"), absl::StrCat(i));
    EXPECT_EQ(spans[i].trace_id().size(), 16U);
    EXPECT_EQ(spans[i].span_id().size(), 8U);
    EXPECT_TRUE(ids.insert(spans[i].trace_id()).second && ids.insert(spans[i].span_id()).second);
    EXPECT_LT(spans[i].start_time_unix_nano(), spans[i].end_time_unix_nano());
    EXPECT_NEAR(static_cast<double>(spans[i].start_time_unix_nano()), static_cast<double>(now), 60e9);
  }
  ExpectCounts(100, 0);
}

TEST_F(Exporter, NamesTheServer) {
  Start();
  End("1");
  ASSERT_TRUE(exporter_->Flush(kPatience));
  const auto resource = script_.Attempts().at(0).resource_spans(0);
  ASSERT_EQ(resource.resource().attributes_size(), 2);
  EXPECT_EQ(resource.resource().attributes(0).key(), "service.name");
  EXPECT_EQ(resource.resource().attributes(0).value().string_value(), "dunlin");
  EXPECT_EQ(resource.resource().attributes(1).key(), "service.version");
  EXPECT_EQ(resource.resource().attributes(1).value().string_value(), "1.2.3");
  EXPECT_EQ(resource.scope_spans(0).scope().name(), "dunlin");
}

TEST_F(Exporter, FollowsTheClientsTrace) {
  SpanExporterOptions options = Options();
  options.sample_per_million = 0;
  Start(options);
  End("sampled", Parent(true));
  End("not sampled", Parent(false));
  End("begins here");
  ASSERT_TRUE(exporter_->Flush(kPatience));
  const std::vector<Span> spans = Spans();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(AttributesOf(spans[0]).at("gen_ai.request.id"), "sampled");
  EXPECT_EQ(spans[0].trace_id(), std::string(1, '\7') + std::string(15, '\0'));
  EXPECT_EQ(spans[0].parent_span_id(), std::string(1, '\t') + std::string(7, '\0'));
  EXPECT_NE(spans[0].span_id(), spans[0].parent_span_id());
  EXPECT_EQ(spans[0].trace_state(), "a=b");
  ExpectCounts(1, 0);
}

TEST_F(Exporter, SamplesThePartThatIsAskedFor) {
  SpanExporterOptions options = Options();
  options.sample_per_million = 250'000;
  options.max_queued = 65536;
  Start(options);
  for (int i = 0; i < 4000; ++i) End("r");
  ASSERT_TRUE(exporter_->Flush(kPatience));
  EXPECT_NEAR(static_cast<double>(Spans().size()), 1000, 6 * 28) << "six standard deviations";
}

TEST_F(Exporter, MakesNoSpanOfACallWithoutATrace) {
  Start();
  exporter_->OnFinished(RequestRecord());
  EXPECT_TRUE(exporter_->Flush(kPatience));
  EXPECT_TRUE(script_.Attempts().empty());
}

TEST_F(Exporter, DropsAndCountsWhatTheQueueHasNoRoomFor) {
  SpanExporterOptions options = Options();
  options.max_queued = 10;
  script_.Hold(true);
  Start(options);
  End("held");
  ASSERT_TRUE(script_.WaitForAttempts(1));
  for (int i = 0; i < 25; ++i) End(absl::StrCat(i));
  ExpectCounts(0, 15);
  EXPECT_FALSE(exporter_->Flush(absl::Milliseconds(10)));
  script_.Hold(false);
  ASSERT_TRUE(exporter_->Flush(kPatience));
  EXPECT_EQ(Spans().size(), 11U);
  ExpectCounts(11, 15);
}

TEST_F(Exporter, SendsABatchAgainThatMayBeTakenLater) {
  Start();
  script_.Answer({{Outcome::kRetry, 0, "away"}, {Outcome::kRetry, 0, "away"}});
  End("1");
  ASSERT_TRUE(script_.WaitForAttempts(3));
  ASSERT_TRUE(exporter_->Flush(kPatience));
  const auto attempts = script_.Attempts();
  ASSERT_EQ(attempts.size(), 3U);
  EXPECT_EQ(attempts[0].SerializeAsString(), attempts[2].SerializeAsString());
  ExpectCounts(1, 0);
}

TEST_F(Exporter, GivesABatchUpAfterSixAttempts) {
  Start();
  script_.Answer(std::vector<SpanSink::Result>(SpanExporter::kMaxAttempts, {Outcome::kRetry, 0, "away"}));
  End("1");
  ASSERT_TRUE(script_.WaitForAttempts(SpanExporter::kMaxAttempts));
  ASSERT_TRUE(exporter_->Flush(kPatience));
  ExpectCounts(0, 1);
  End("2");
  ASSERT_TRUE(exporter_->Flush(kPatience));
  ExpectCounts(1, 1);
  EXPECT_EQ(script_.Attempts().size(), SpanExporter::kMaxAttempts + 1U);
}

TEST_F(Exporter, DoesNotRepeatARefusedBatch) {
  Start();
  script_.Answer({{Outcome::kRefused, 0, "no"}});
  End("1");
  ASSERT_TRUE(exporter_->Flush(kPatience));
  EXPECT_EQ(script_.Attempts().size(), 1U);
  ExpectCounts(0, 1);
}

TEST_F(Exporter, CountsWhatTheSinkRejectsOfABatch) {
  SpanExporterOptions options = Options();
  options.batch_delay = absl::Seconds(10);  // Flush comes first
  Start(options);
  script_.Answer({{Outcome::kTaken, 2, ""}});
  for (int i = 0; i < 5; ++i) End(absl::StrCat(i));
  ASSERT_TRUE(exporter_->Flush(kPatience));
  ExpectCounts(3, 2);
}

TEST_F(Exporter, SendsAtMostAFullBatchAtOnce) {
  script_.Hold(true);
  Start();
  End("held");
  ASSERT_TRUE(script_.WaitForAttempts(1));
  for (size_t i = 0; i < SpanExporter::kMaxBatch + 1; ++i) End("r");
  script_.Hold(false);
  ASSERT_TRUE(exporter_->Flush(kPatience));
  const auto attempts = script_.Attempts();
  ASSERT_EQ(attempts.size(), 3U);
  EXPECT_EQ(attempts[1].resource_spans(0).scope_spans(0).spans_size(), static_cast<int>(SpanExporter::kMaxBatch));
  EXPECT_EQ(attempts[2].resource_spans(0).scope_spans(0).spans_size(), 1);
}

TEST_F(Exporter, EndsAtOnceWhileTheSinkHangs) {
  script_.Hold(true);
  Start();
  End("held");
  ASSERT_TRUE(script_.WaitForAttempts(1));
  for (int i = 0; i < 5; ++i) End("queued");
  EXPECT_FALSE(exporter_->Flush(absl::Milliseconds(20)));
  const absl::Time begin = absl::Now();
  exporter_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST_F(Exporter, EndsAtOnceInThePauseBetweenTwoAttempts) {
  SpanExporterOptions options = Options();
  options.min_backoff = options.max_backoff = absl::Hours(1);
  Start(options);
  script_.Answer({{Outcome::kRetry, 0, "away"}});
  End("1");
  ASSERT_TRUE(script_.WaitForAttempts(1));
  EXPECT_TRUE(exporter_->Flush(kPatience)) << "a flush does not wait for the pause";
  ExpectCounts(0, 1);
}

TEST_F(Exporter, CountsEverySpanOnceWhenManyThreadsEndCalls) {
  SpanExporterOptions options = Options();
  options.max_queued = 64;
  Start(options);
  script_.Answer({{Outcome::kRetry, 0, "away"}, {Outcome::kRefused, 0, "no"}});
  constexpr int kThreads = 4;
  constexpr int kCalls = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      for (int call = 0; call < kCalls; ++call) End("r", Parent(true));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(exporter_->Flush(kPatience));
  constexpr int kLast = 3;  // more than the answers that export nothing
  for (int i = 0; i < kLast; ++i) {
    End("last");
    ASSERT_TRUE(exporter_->Flush(kPatience));
  }
  const SpanExporter::Counts counts = exporter_->counts();
  EXPECT_EQ(counts.exported + counts.dropped, uint64_t{kThreads} * kCalls + kLast);
  EXPECT_GT(counts.exported, 0U);
  EXPECT_GT(counts.dropped, 0U);
}

}  // namespace
}  // namespace dunlin::server
