// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/text_pool.h"

#include <utility>

#include "absl/time/time.h"
#include "engine/base/thread_name.h"
#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

// So that prompts are read even when deliveries alone could keep every thread busy.
constexpr int kDeliveriesInARow = 16;
constexpr engine::TimeNs kTickPeriod = 200'000'000;

}  // namespace

TextPool::TextPool(int num_threads, std::function<void()> on_tick) : on_tick_(std::move(on_tick)) {
  workers_.reserve(static_cast<size_t>(num_threads) + 1);
  for (int i = 0; i < num_threads; ++i) {
    workers_.emplace_back([this, i] {
      engine::NameThread("text", i);
      WorkerLoop();
    });
  }
  workers_.emplace_back([this] {
    engine::NameThread("delivery");
    DeliveryLoop();
  });
}

TextPool::~TextPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    work_or_stop_.SignalAll();
    delivery_or_stop_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

void TextPool::Schedule(TextTask* task) {
  if (MarkScheduled(task)) Push(task);
}

void TextPool::ScheduleLater(TextTask* task) {
  if (!MarkScheduled(task)) return;
  task->next_ = deferred_.load(std::memory_order_relaxed);
  while (!deferred_.compare_exchange_weak(task->next_, task, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void TextPool::ScheduleDeferred() {
  if (deferred_.load(std::memory_order_relaxed) == nullptr) return;
  TextTask* task = deferred_.exchange(nullptr, std::memory_order_acquire);
  TextTask* first = nullptr;
  while (task != nullptr) {
    TextTask* next = std::exchange(task->next_, first);
    first = std::exchange(task, next);
  }
  absl::MutexLock lock(&mutex_);
  while (first != nullptr) PushLocked(std::exchange(first, first->next_));
}

bool TextPool::MarkScheduled(TextTask* task) {
  using State = TextTask::State;
  State state = task->state_.load(std::memory_order_relaxed);
  while (true) {
    // acq_rel: a task that is queued, or due to run again, will see what the caller did before.
    State next = State::kQueued;
    if (state == State::kRunning || state == State::kRunningAgain) next = State::kRunningAgain;
    if (task->state_.compare_exchange_weak(state, next, std::memory_order_acq_rel)) break;
  }
  if (state != State::kIdle) return false;
  task->self_ = task->shared_from_this();
  return true;
}

void TextPool::RunInline(TextTask* task) {
  TextTask::State expected = TextTask::State::kIdle;
  if (!task->state_.compare_exchange_strong(expected, TextTask::State::kRunning, std::memory_order_acq_rel)) {
    return Schedule(task);
  }
  std::shared_ptr<TextTask> keep = task->shared_from_this();
  task->RunInline();
  AfterRun(task, std::move(keep));
}

void TextPool::WorkerLoop() {
  while (TextTask* task = Pop()) {
    RunOnce(task);
    num_run_.fetch_add(1, std::memory_order_relaxed);
  }
}

void TextPool::DeliveryLoop() {
  engine::TimeNs next_tick = MonotonicNs() + kTickPeriod;
  while (const std::optional<TextTask*> task = PopDelivery(next_tick)) {
    if (*task != nullptr) RunOnce(*task);
    num_delivery_turns_.fetch_add(1, std::memory_order_relaxed);
    if (MonotonicNs() < next_tick) continue;
    if (on_tick_ != nullptr) on_tick_();
    next_tick = MonotonicNs() + kTickPeriod;
  }
}

void TextPool::RunOnce(TextTask* task) {
  std::shared_ptr<TextTask> keep = std::move(task->self_);
  task->state_.exchange(TextTask::State::kRunning, std::memory_order_acq_rel);
  task->Run();
  AfterRun(task, std::move(keep));
}

void TextPool::AfterRun(TextTask* task, std::shared_ptr<TextTask> keep) {
  using State = TextTask::State;
  State expected = State::kRunning;
  if (task->state_.compare_exchange_strong(expected, State::kIdle, std::memory_order_acq_rel)) return;
  // Scheduled again while running: moves to the end of the queue, so that no task starves the others.
  task->state_.exchange(State::kQueued, std::memory_order_acq_rel);
  task->self_ = std::move(keep);
  Push(task);
}

void TextPool::Queue::Push(TextTask* task) {
  task->next_ = nullptr;
  (tail == nullptr ? head : tail->next_) = task;
  tail = task;
}

TextTask* TextPool::Queue::Pop() {
  TextTask* task = head;
  if (task == nullptr) return nullptr;
  head = task->next_;
  if (head == nullptr) tail = nullptr;
  return task;
}

void TextPool::Push(TextTask* task) {
  absl::MutexLock lock(&mutex_);
  PushLocked(task);
}

void TextPool::PushLocked(TextTask* task) {
  if (task->delivers_.load(std::memory_order_relaxed)) {
    deliveries_.Push(task);
    if (std::exchange(delivery_idle_, false)) return delivery_or_stop_.Signal();
  } else {
    prompts_.Push(task);
  }
  if (idle_workers_ > 0) work_or_stop_.Signal();
}

TextTask* TextPool::PopEither() {
  const bool prompt_first = prompts_.head != nullptr && deliveries_in_a_row_ >= kDeliveriesInARow;
  TextTask* task = prompt_first ? nullptr : deliveries_.Pop();
  deliveries_in_a_row_ = task != nullptr && prompts_.head != nullptr ? deliveries_in_a_row_ + 1 : 0;
  return task != nullptr ? task : prompts_.Pop();
}

TextTask* TextPool::Pop() {
  absl::MutexLock lock(&mutex_);
  TextTask* task = nullptr;
  while ((task = PopEither()) == nullptr && !stopping_) {
    ++idle_workers_;
    work_or_stop_.Wait(&mutex_);
    --idle_workers_;
  }
  return task;
}

std::optional<TextTask*> TextPool::PopDelivery(engine::TimeNs next_tick) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    if (TextTask* task = deliveries_.Pop(); task != nullptr) return task;
    if (stopping_) return std::nullopt;
    const engine::TimeNs wait = next_tick - MonotonicNs();
    if (wait <= 0) return nullptr;
    delivery_idle_ = true;  // until it is woken for a task, which another thread may then take
    delivery_or_stop_.WaitWithTimeout(&mutex_, absl::Nanoseconds(wait));
    delivery_idle_ = false;
  }
}

}  // namespace dunlin::server
