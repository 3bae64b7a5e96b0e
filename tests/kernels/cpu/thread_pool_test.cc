// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace dunlin::kernels::cpu {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceForAnyNumberOfThreadsAndTasks) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.num_threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> runs(static_cast<size_t>(tasks), 0);
      pool.Run(tasks, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
      for (const int count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, NegativeNumberOfTasksIsNothingToDo) {
  ThreadPool pool(2);
  pool.Run(-1, [](int64_t, int) { FAIL(); });
}

TEST(ThreadPool, OneThreadAtATimeUsesAWorkerIndex) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<int> clashes{0};
  pool.Run(2000, [&](int64_t, int worker) {
    if (worker < 0 || worker >= kThreads || inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++clashes;
    inside[static_cast<size_t>(worker)].fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

TEST(ThreadPool, WritesOfTasksAreVisibleWhenRunReturns) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64);
  int64_t total = 0;
  for (int64_t round = 0; round < 3000; ++round) {  // plain memory: ThreadSanitizer judges the hand-over
    pool.Run(64, [&](int64_t task, int) { values[static_cast<size_t>(task)] = round + task; });
    for (const int64_t value : values) total += value;
  }
  EXPECT_EQ(total, 64 * (2999 * 3000 / 2) + 3000 * (63 * 64 / 2));
}

TEST(ThreadPool, ConcurrentCallersTakeTurns) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(4, 0);
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&pool, &sum = sums[caller]] {
      for (int round = 0; round < 300; ++round) {
        std::vector<int64_t> parts(16, 0);
        pool.Run(16, [&](int64_t task, int) { parts[static_cast<size_t>(task)] = task; });
        for (const int64_t part : parts) sum += part;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 300 * 120);
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(2);
  std::atomic<bool> other_ran{false};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // far beyond the spin time: the worker sleeps
    other_ran = false;
    // Task 0 waits for task 1, so only a second thread can end the job.
    pool.Run(2, [&](int64_t task, int) {
      if (task == 1) other_ran = true;
      while (task == 0 && !other_ran) std::this_thread::yield();
    });
    EXPECT_TRUE(other_ran);
  }
}

TEST(ThreadPool, ClosesWhileWorkersSleepAndWhileTheySpin) {
  for (int round = 0; round < 50; ++round) {
    auto pool = std::make_unique<ThreadPool>(3);
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (round % 3 == 0) pool->Run(5, [](int64_t, int) {});
    pool.reset();
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu
