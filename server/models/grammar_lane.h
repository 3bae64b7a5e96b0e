// SPDX-License-Identifier: Apache-2.0
// The grammars of one model on their way to be compiled: a bounded queue, in which tenants take turns, and the thread
// that serves it. Where the model has a worker's program, each grammar is compiled in that process first, which is
// killed when nobody waits any more, at the deadline, or when it takes more than it may; here only what ended there is
// compiled. One that takes longer than kFirstTry goes behind all that have not been tried, so that ordinary ones pass
// it. Thread rule: any thread; callbacks come from the lane's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/request/types.h"
#include "server/access/limits.h"
#include "server/text_worker/worker_process.h"
#include "text/grammar.h"

namespace dunlin::server {

// A compiled grammar.
struct Grammar {
  std::shared_ptr<const engine::TokenConstraint> constraint;
  size_t bytes = 0;  // of its memory, and of that of each output's state when it starts
};

// One to be compiled. Shared by those who wait for it and the lane.
class GrammarJob {
 public:
  GrammarJob(std::string key, text::GrammarSource source, engine::TenantId tenant);
  ~GrammarJob();
  GrammarJob(const GrammarJob&) = delete;
  GrammarJob& operator=(const GrammarJob&) = delete;

  // Ends it soon, with CANCELLED. Any thread.
  void Cancel() const;
  bool is_cancelled() const;
  // It is worth compiling until the last of those who wait for it gives up.
  void Extend(absl::Time deadline);
  absl::Time deadline() const { return absl::FromUnixNanos(deadline_ns_.load(std::memory_order_relaxed)); }

  const std::string key;
  const text::GrammarSource source;
  const engine::TenantId tenant;
  const int cancel;  // a descriptor that is readable once it is cancelled

  bool is_slow = false;  // the lane's: it did not end in its first try

 private:
  std::atomic<int64_t> deadline_ns_{0};  // since 1970
};

class GrammarLane {
 public:
  // What the compiler is made from, when the first grammar comes.
  struct Model {
    const text::Tokenizer* tokenizer = nullptr;  // outlives the lane
    std::vector<engine::TokenId> eos_token_ids;
    int32_t vocab_size = 0;
    std::string worker_program;  // "": no worker, grammars are compiled here at once
    TextWorkLimits text_work;
  };
  using Done = std::function<void(const std::shared_ptr<GrammarJob>&, absl::StatusOr<Grammar>)>;

  static constexpr size_t kMaxJobs = 64;
  static constexpr size_t kMaxJobsPerTenant = 16;
  static constexpr size_t kMaxSourceBytes = size_t{8} << 20;  // of all of them
  // Of a grammar from its arrival on.
  static constexpr absl::Duration kTimeLimit = absl::Seconds(5);
  // Processor time: of a first try, which ordinary grammars need some milliseconds of, and of a second one.
  static constexpr absl::Duration kFirstTry = absl::Milliseconds(100);
  static constexpr absl::Duration kProcessorTime = absl::Seconds(1);

  GrammarLane(Model model, Done done);
  // Jobs that are left are dropped.
  ~GrammarLane();
  GrammarLane(const GrammarLane&) = delete;
  GrammarLane& operator=(const GrammarLane&) = delete;

  // False if there is no room, for this tenant or at all, or no thread to be had. Done is called once for each that is
  // taken, unless it is removed before its turn.
  [[nodiscard]] bool Add(std::shared_ptr<GrammarJob> job);
  // Nobody waits for it. True if its turn had not come.
  bool Remove(const std::shared_ptr<GrammarJob>& job);

 private:
  // In which tenants take turns.
  struct Queue {
    void Push(std::shared_ptr<GrammarJob> job);
    std::shared_ptr<GrammarJob> Pop();  // null if it is empty
    bool Remove(const std::shared_ptr<GrammarJob>& job);
    size_t SizeOf(engine::TenantId tenant) const;

    std::map<engine::TenantId, std::deque<std::shared_ptr<GrammarJob>>> jobs;  // none is empty
    std::deque<engine::TenantId> turns;                                        // of those with jobs
    size_t size = 0;
    size_t bytes = 0;  // of their sources
  };

  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // false: the system has none
  void Loop();
  std::shared_ptr<GrammarJob> Next();  // null once the lane stops
  bool HasWorkOrStops() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || new_.size + slow_.size > 0; }
  void Run(const std::shared_ptr<GrammarJob>& job);

  absl::StatusOr<Grammar> Compile(GrammarJob* job);
  // In the worker; the bytes that the grammar keeps there. ABORTED: this try has ended.
  absl::StatusOr<size_t> Prove(GrammarJob* job);
  absl::StatusOr<WorkerProcess*> Worker(GrammarJob* job);
  absl::StatusOr<const text::GrammarCompiler*> Compiler();

  const Model model_;
  const Done done_;
  std::unique_ptr<text::GrammarCompiler> compiler_;  // the lane's thread
  std::unique_ptr<WorkerProcess> worker_;            // the lane's thread; null: to be started
  absl::Mutex mutex_;                                // guards what follows
  Queue new_ ABSL_GUARDED_BY(mutex_);
  Queue slow_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // started with the first job
};

}  // namespace dunlin::server
