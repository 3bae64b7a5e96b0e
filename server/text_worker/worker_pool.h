// SPDX-License-Identifier: Apache-2.0
// Worker processes that are alike: started when calls need them, kept for the next, replaced when one has ended.
// Thread rule: any thread that may block for the seconds that a call may take: a text pool thread, the main thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/text_worker/worker_process.h"
#include "text/text_worker.h"

namespace dunlin::server {

class WorkerPool final : public text::TextWorkerCalls {
 public:
  struct Bounds {
    int workers = 1;                                   // calls at once; others wait
    absl::Duration time = absl::Seconds(5);            // of a call
    absl::Duration processor_time = absl::Seconds(3);  // of a call
  };

  // program: as WorkerProcess::Start's.
  WorkerPool(std::string program, const WorkerLimits& limits, const Bounds& bounds)
      : program_(std::move(program)), limits_(limits), bounds_(bounds) {}

  // Errors: RESOURCE_EXHAUSTED (a bound or a limit); UNAVAILABLE.
  absl::StatusOr<std::string> Call(std::string_view request, bool prepares) override;

 private:
  absl::StatusOr<std::string> CallOne(std::string_view request, bool prepares, std::unique_ptr<WorkerProcess>* worker);
  std::unique_ptr<WorkerProcess> Take();  // null: one is to be started
  void Return(std::unique_ptr<WorkerProcess> worker);

  const std::string program_;
  const WorkerLimits limits_;
  const Bounds bounds_;
  absl::Mutex mutex_;  // guards what follows
  int num_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<WorkerProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  std::string preparation_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
