// SPDX-License-Identifier: Apache-2.0
// Everything a run counts, in memory that does not grow with the number of requests: totals and histograms for each
// entry of the mix, refusals by reason, a timeline.
// Thread rule: any thread; one short lock per message.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tools/load/histogram.h"
#include "tools/load/outcome.h"
#include "tools/load/slo.h"
#include "tools/load/timeline.h"

namespace dunlin::tools::load {

// The refused and failed requests of one reason.
struct ReasonTotals {
  int64_t count = 0;
  int64_t with_retry_info = 0;
  DurationHistogram latency;  // sent to status
  std::string example;        // the first message
};

// Of one entry of the mix, or of several together.
struct Totals {
  int64_t sent = 0;
  int64_t completed = 0;
  int64_t refused = 0;
  int64_t refused_without_retry_info = 0;
  int64_t failed = 0;
  int64_t deadline = 0;
  int64_t cancelled = 0;
  int64_t unfinished = 0;
  int64_t good = 0;           // completed within the SLO
  int64_t input_tokens = 0;   // of completed requests
  int64_t output_tokens = 0;  // of completed requests
  int64_t token_messages = 0;
  DurationHistogram ttft;           // completed requests
  DurationHistogram tpot;           // completed requests with two tokens or more
  DurationHistogram itl;            // every gap, including those of requests that failed later
  DurationHistogram e2el;           // completed requests
  DurationHistogram refusal;        // refused requests, sent to status
  DurationHistogram beyond_engine;  // E2E from sent less the engine's time, of completed requests that report it

  void Add(const Totals& other);
};

struct Recording {
  TimeNs started = 0;     // intended time of the first request
  TimeNs last_ended = 0;  // of any request; == started when none ended
  std::vector<Totals> groups;
  std::map<std::string, ReasonTotals> reasons;  // of refused and failed requests
  DurationHistogram send_delay;                 // intended to sent: the client's own delay
  Timeline timeline;
  int64_t in_flight_max = 0;
  int64_t tokens = 0;      // received, whatever became of their requests
  double cpu_seconds = 0;  // of this process during the run

  Totals Sum() const;
  double seconds() const { return ToSeconds(last_ended - started); }
};

class Recorder {
 public:
  Recorder(size_t num_groups, const Slo& slo, TimeNs started);

  void OnSent(size_t group, TimeNs intended, TimeNs sent);
  // A message with tokens; gap_ns < 0 when it is the request's first.
  void OnTokens(size_t group, int32_t num_tokens, TimeNs gap_ns, TimeNs now);
  void OnEnd(const Outcome& outcome);

  Recording Snapshot() const;

  struct Live {
    int64_t in_flight = 0;
    int64_t completed = 0;
    int64_t refused = 0;
    int64_t failed = 0;
    int64_t deadline = 0;
    int64_t tokens = 0;
    double ttft_p50_ms = 0;
  };
  Live live() const;

 private:
  const Slo slo_;
  mutable absl::Mutex mutex_;  // guards everything below
  Recording recording_ ABSL_GUARDED_BY(mutex_);
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dunlin::tools::load
