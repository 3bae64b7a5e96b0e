// SPDX-License-Identifier: Apache-2.0
// Whether a new request can end by its deadline beside what runs and waits now, so that one that cannot is refused
// before it costs anything. The engine thread publishes what its scheduler knows after each plan; what was submitted
// since then is counted here. An estimate, and a low one: nothing is refused while nothing runs and waits, and whatever
// is not known is taken for none (service_forecast.h). Thread rule: any thread, except where a function says engine
// thread. Allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "engine/request/types.h"
#include "engine/scheduler/service_forecast.h"

namespace dunlin::engine {

class Scheduler;

// What decides when a request ends, before its prompt is known.
struct DeadlineDemand {
  TenantId tenant = kSharedTenant;
  int32_t priority = 0;
  StoppingParams stopping = {};
  int32_t num_outputs = 1;
  TimeNs deadline = kNoDeadline;
};

// Why a request would end too late.
struct DeadlineMiss {
  TimeNs expected = 0;  // nanoseconds from now on until its end
  int32_t running = 0;  // sequences
  int32_t ahead = 0;    // that wait and come before it
};

class DeadlineGate {
 public:
  explicit DeadlineGate(int32_t max_sequences) : max_sequences_(max_sequences) {}

  // Engine thread: after a plan, in which every sequence submitted before it had a part.
  void Publish(const Scheduler& scheduler, TimeNs now);
  // Engine thread: sequences that run now.
  void SetRunning(int32_t running);
  // A sequence is about to be submitted: before the engine thread can see it, because none may stay counted that it has
  // planned.
  void OnSubmit(TenantId tenant, int32_t priority);
  // It was refused.
  void OnRefused(TenantId tenant, int32_t priority);

  // Nullopt if it may end in time, and where its deadline has passed: that is no lack of capacity, and ends it as
  // deadlines do. What is not known is taken for none.
  std::optional<DeadlineMiss> Check(const DeadlineDemand& demand, TimeNs now) const;

 private:
  // The waiting sequences of one tenant and priority.
  struct Row {
    TenantId tenant = kSharedTenant;
    int32_t priority = 0;
    int32_t count = 0;
  };
  // The first 32 kinds; sequences of others are not counted.
  struct Rows {
    std::array<Row, 32> rows;
    size_t size = 0;
    void Count(TenantId tenant, int32_t priority, int32_t more);
    const Row* begin() const { return rows.data(); }
    const Row* end() const { return rows.data() + size; }
  };

  // Of a tenant whose sequences take longer than expected: Tenant::caution.
  struct Caution {
    TenantId tenant = kSharedTenant;
    double value = 1.0;
  };

  void Learn(const Scheduler& scheduler, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Outranks(int32_t priority) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int32_t Ahead(const DeadlineDemand& demand) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Steps of a small model take a tenth of this: what is learned is copied less often.
  static constexpr TimeNs kLearnInterval = 2'000'000;

  const int32_t max_sequences_;
  mutable Mutex mutex_;  // guards what follows, between the engine thread and those that ask; held for a microsecond
  TimeNs learned_ ABSL_GUARDED_BY(mutex_) = -kLearnInterval;
  ServiceForecast forecast_ ABSL_GUARDED_BY(mutex_);
  int32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t lowest_running_priority_ ABSL_GUARDED_BY(mutex_) = 0;    // of those after the last plan
  std::array<Caution, 32> cautions_ ABSL_GUARDED_BY(mutex_) = {};  // the first so many
  Rows waiting_ ABSL_GUARDED_BY(mutex_);                           // published, and those submitted since
};

}  // namespace dunlin::engine
