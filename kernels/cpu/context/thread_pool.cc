// SPDX-License-Identifier: Apache-2.0
// One job at a time: a 64-bit word holds (generation, tasks left), and a thread claims a task by lowering it with a
// compare-and-swap. A worker that wakes late finds nothing left, so a finished job never waits for it; a claimed task
// keeps the job's fields alive until `unfinished` has been lowered by it.
// std::mutex, not absl::Mutex: the packaged absl is not instrumented, and TSan must be able to check this file.
#include "kernels/cpu/context/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dunlin::kernels::cpu {
namespace {

constexpr std::chrono::microseconds kSpin{20};
constexpr uint64_t kLeftMask = 0xFFFFFFFFU;
constexpr int64_t kTasksPerRoundMax = int64_t{1} << 30;  // fits the low half of the claim word

// Tells the core that this thread spins. On ARM ISB: `yield` is a no-op on cores without hardware threads.
void Pause() {
#if defined(__aarch64__)
  __asm__ volatile("isb");
#else
  __builtin_ia32_pause();
#endif
}

// Spins until ready() or until the spin time is over; returns the last result of ready().
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  if (ready()) return true;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 8; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

}  // namespace

struct ThreadPool::State {
  std::mutex turn;  // held by the one Run in progress; guards the job's fields against the next Run

  // The job. Written under `turn` while nothing is claimed; read by a thread only between its claim and its count.
  ErasedBody call = nullptr;
  const void* body = nullptr;
  int64_t first_task = 0;
  int64_t num_tasks = 0;

  alignas(64) std::atomic<uint64_t> claims{0};     // generation << 32 | tasks left
  alignas(64) std::atomic<int64_t> unfinished{0};  // tasks of the job that have not returned
  alignas(64) std::atomic<uint32_t> bell{0};       // rung once per job; what sleeping workers wait on
  std::atomic<uint32_t> done_bell{0};              // rung when a job's last task returned
  std::atomic<bool> stopping{false};
  std::vector<std::thread> workers;

  bool ClaimTask(int64_t* task) {
    uint64_t seen = claims.load(std::memory_order_acquire);
    while ((seen & kLeftMask) != 0) {
      if (claims.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        *task = num_tasks - static_cast<int64_t>(seen & kLeftMask);
        return true;
      }
    }
    return false;
  }

  void RunClaimedTasks(int worker) {
    int64_t task = 0;
    int64_t finished = 0;
    while (ClaimTask(&task)) {
      call(body, first_task + task, worker);
      ++finished;
    }
    if (finished == 0) return;
    if (unfinished.fetch_sub(finished, std::memory_order_acq_rel) == finished) {
      done_bell.fetch_add(1, std::memory_order_release);
      done_bell.notify_one();
    }
  }

  void WorkerLoop(int worker) {
    uint32_t heard = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      const bool rung = SpinUntil([&] { return bell.load(std::memory_order_acquire) != heard; });
      if (!rung) bell.wait(heard, std::memory_order_acquire);
      heard = bell.load(std::memory_order_acquire);
      RunClaimedTasks(worker);
    }
  }

  void Ring() {
    bell.fetch_add(1, std::memory_order_release);
    bell.notify_all();
  }

  // REQUIRES: `turn` held, 0 < count <= kTasksPerRoundMax.
  void RunRound(int64_t first, int64_t count) {
    first_task = first;
    num_tasks = count;
    const uint32_t done_before = done_bell.load(std::memory_order_relaxed);
    unfinished.store(count, std::memory_order_relaxed);
    const uint64_t generation = (claims.load(std::memory_order_relaxed) >> 32) + 1;
    claims.store(generation << 32 | static_cast<uint64_t>(count), std::memory_order_release);
    Ring();
    RunClaimedTasks(0);
    const auto finished = [&] { return done_bell.load(std::memory_order_acquire) != done_before; };
    if (!SpinUntil(finished)) done_bell.wait(done_before, std::memory_order_acquire);
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  for (int worker = 1; worker < num_threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] {
      pthread_setname_np(pthread_self(), ("compute-" + std::to_string(worker)).c_str());
      state->WorkerLoop(worker);
    });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->Ring();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::RunErased(int64_t num_tasks, ErasedBody call, const void* body) {
  if (num_tasks <= 0) return;
  const std::lock_guard<std::mutex> lock(state_->turn);
  if (num_tasks == 1 || state_->workers.empty()) {  // nothing to share: no wake-up
    for (int64_t task = 0; task < num_tasks; ++task) call(body, task, 0);
    return;
  }
  state_->call = call;
  state_->body = body;
  for (int64_t first = 0; first < num_tasks; first += kTasksPerRoundMax) {
    state_->RunRound(first, num_tasks - first < kTasksPerRoundMax ? num_tasks - first : kTasksPerRoundMax);
  }
}

}  // namespace dunlin::kernels::cpu
