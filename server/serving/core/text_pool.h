// SPDX-License-Identifier: Apache-2.0
// A fixed-size thread pool for all text work: parsing, tokenising, detokenising, stop strings, responses. Transport and
// engine threads only schedule, or run a short piece of work inline where waking a thread would cost more.
//
// A TextTask is anything that repeatedly has such work (a generation, a unary call). It is queued at most once and
// never runs on two threads at a time, so Run needs no lock against itself, and the queue is never longer than the
// number of tasks, which admission bounds. Schedule neither allocates nor blocks, apart from one short lock.
//
// There are two lanes. Prompts are read and tokenised in the first; tokens are delivered in the second, which every
// thread serves first and one thread serves alone: however many prompts wait, and however long one takes, a stream goes
// on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/types.h"

namespace dunlin::server {

class TextTask : public std::enable_shared_from_this<TextTask> {
 public:
  TextTask() = default;
  virtual ~TextTask() = default;
  TextTask(const TextTask&) = delete;
  TextTask& operator=(const TextTask&) = delete;

 private:
  friend class TextPool;
  enum class State : uint8_t { kIdle, kQueued, kRunning, kRunningAgain };

  // On a text pool thread, one call at a time, each seeing what happened before the Schedule that led to it.
  virtual void Run() = 0;
  // As Run, on the thread that called TextPool::RunInline: must not block, and takes some tens of microseconds at most.
  virtual void RunInline() { Run(); }

 protected:
  // The task has read its prompt: from now on it is queued to deliver. From inside Run.
  void UseDeliveryLane() { delivers_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> delivers_{false};
  std::shared_ptr<TextTask> self_;  // keeps the task alive while kQueued; moved by the thread that changed the state
  TextTask* next_ = nullptr;        // in one of TextPool's queues, guarded by its mutex, or in its deferred_
};

class TextPool {
 public:
  // num_threads for both lanes, and one more that only delivers. REQUIRES: num_threads >= 1.
  // on_tick: called by that thread five times a second, between two tasks; must not block; may be null.
  explicit TextPool(int num_threads, std::function<void()> on_tick = nullptr);
  // Runs what is queued, then joins. REQUIRES: no further Schedule calls.
  ~TextPool();
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  // Runs `task` once more; calls before that run has begun are merged into it. Any thread, also from inside Run.
  // REQUIRES: the task is alive and owned by a shared_ptr.
  void Schedule(TextTask* task);

  // As Schedule, but the task waits for ScheduleDeferred, which the caller calls soon: so the tokens of a step take the
  // lock once and find one thread to wake, which would otherwise run and sleep again between two of them.
  void ScheduleLater(TextTask* task);
  // Schedules what any thread has deferred.
  void ScheduleDeferred();

  // As Schedule, but a task that is neither queued nor running runs now, on the calling thread (TextTask::RunInline),
  // which is not one of the pool's and holds no lock.
  void RunInline(TextTask* task);

  // A part of a run that takes long has ended.
  void NoteProgress() const { num_run_.fetch_add(1, std::memory_order_relaxed); }
  // Runs on the pool's threads that have ended, and parts of them. Any thread.
  uint64_t num_run() const { return num_run_.load(std::memory_order_relaxed); }
  // Turns of the thread that only delivers, five a second or more. Any thread.
  uint64_t num_delivery_turns() const { return num_delivery_turns_.load(std::memory_order_relaxed); }

 private:
  struct Queue {
    void Push(TextTask* task);
    TextTask* Pop();  // null if empty
    TextTask* head = nullptr;
    TextTask* tail = nullptr;
  };

  void WorkerLoop();
  void DeliveryLoop();
  // True if the task is to be put into a queue.
  static bool MarkScheduled(TextTask* task);
  void Push(TextTask* task);
  void PushLocked(TextTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of both: nothing if the pool is stopping and nothing is queued.
  TextTask* Pop();
  // The next one that delivers; a null task once the time of the next tick has come.
  std::optional<TextTask*> PopDelivery(engine::TimeNs next_tick);
  // Null if both queues are empty. Of either lane, deliveries first, but a prompt after kDeliveriesInARow of them.
  TextTask* PopEither() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunOnce(TextTask* task);
  void AfterRun(TextTask* task, std::shared_ptr<TextTask> keep);

  std::atomic<TextTask*> deferred_{nullptr};  // the last one deferred is first
  absl::Mutex mutex_;
  absl::CondVar work_or_stop_;
  absl::CondVar delivery_or_stop_;
  Queue prompts_ ABSL_GUARDED_BY(mutex_);
  Queue deliveries_ ABSL_GUARDED_BY(mutex_);
  int idle_workers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool delivery_idle_ ABSL_GUARDED_BY(mutex_) = false;
  int deliveries_in_a_row_ ABSL_GUARDED_BY(mutex_) = 0;  // of all workers, while prompts wait
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::atomic<uint64_t> num_run_{0};
  std::atomic<uint64_t> num_delivery_turns_{0};
  const std::function<void()> on_tick_;
  std::vector<std::thread> workers_;  // const after construction; the last one only delivers
};

}  // namespace dunlin::server
