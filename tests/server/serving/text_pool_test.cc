// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace dunlin::server {
namespace {

struct CountingTask : TextTask {
  void Run() override {
    EXPECT_FALSE(running.exchange(true)) << "a task runs on one thread at a time";
    ++runs;
    if (body) body();
    running = false;
  }
  std::function<void()> body;
  std::atomic<bool> running{false};
  std::atomic<int> runs{0};
};

TEST(TextPool, RunsATaskAgainWhenScheduledWhileItRuns) {
  auto task = std::make_shared<CountingTask>();
  {
    TextPool pool(2);
    task->body = [&pool, raw = task.get()] {
      if (raw->runs < 5) pool.Schedule(raw);
    };
    pool.Schedule(task.get());
    while (task->runs < 5) std::this_thread::yield();
  }
  EXPECT_EQ(task->runs, 5);
}

TEST(TextPool, MergesSchedulesOfAQueuedTask) {
  std::atomic<bool> release{false};
  auto blocker = std::make_shared<CountingTask>();
  blocker->body = [&release] {
    while (!release) std::this_thread::yield();
  };
  auto task = std::make_shared<CountingTask>();
  {
    TextPool pool(1);
    pool.Schedule(blocker.get());
    for (int i = 0; i < 1000; ++i) pool.Schedule(task.get());
    release = true;
  }
  EXPECT_EQ(task->runs, 1);
}

TEST(TextPool, KeepsAScheduledTaskAlive) {
  std::atomic<int> runs{0};
  {
    TextPool pool(1);
    auto task = std::make_shared<CountingTask>();
    task->body = [&runs] { ++runs; };
    pool.Schedule(task.get());
  }
  EXPECT_EQ(runs, 1);
}

struct InlineTask : CountingTask {
  void RunInline() override {
    ++inline_runs;
    thread = std::this_thread::get_id();
    if (inline_body) inline_body();
  }
  std::function<void()> inline_body;
  int inline_runs = 0;
  std::thread::id thread;
};

TEST(TextPool, RunInlineRunsTheTaskOnTheCallersThread) {
  auto task = std::make_shared<InlineTask>();
  {
    TextPool pool(1);
    pool.RunInline(task.get());
    EXPECT_EQ(task->inline_runs, 1);
    EXPECT_EQ(task->thread, std::this_thread::get_id());
  }
  EXPECT_EQ(task->runs, 0);
}

TEST(TextPool, ATaskScheduledDuringAnInlineRunRunsAfterItOnThePool) {
  auto task = std::make_shared<InlineTask>();
  {
    TextPool pool(1);
    task->inline_body = [&pool, raw = task.get()] {
      pool.RunInline(raw);
      pool.Schedule(raw);
      EXPECT_EQ(raw->runs, 0);
    };
    pool.RunInline(task.get());
  }
  EXPECT_EQ(task->inline_runs, 1);
  EXPECT_EQ(task->runs, 1);
}

TEST(TextPool, RunInlineLeavesAQueuedTaskToThePool) {
  std::atomic<bool> release{false};
  auto blocker = std::make_shared<CountingTask>();
  blocker->body = [&release] {
    while (!release) std::this_thread::yield();
  };
  auto task = std::make_shared<InlineTask>();
  {
    TextPool pool(1);
    pool.Schedule(blocker.get());
    pool.Schedule(task.get());
    pool.RunInline(task.get());
    EXPECT_EQ(task->inline_runs, 0);
    release = true;
  }
  EXPECT_EQ(task->runs, 1);
}

TEST(TextPool, NoScheduleIsLostUnderContention) {
  constexpr int kTasks = 8;
  constexpr int kRounds = 2000;
  struct Sum : TextTask {
    void Run() override { seen = wanted.load(); }
    std::atomic<int> wanted{0};
    int seen = 0;
  };
  std::vector<std::shared_ptr<Sum>> tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(std::make_shared<Sum>());
  {
    TextPool pool(3);
    std::vector<std::thread> producers;
    for (int p = 0; p < 3; ++p) {
      producers.emplace_back([&, p] {
        for (int round = 0; round < kRounds; ++round) {
          for (const auto& task : tasks) {
            task->wanted.fetch_add(1);
            p == 0 ? pool.RunInline(task.get()) : pool.Schedule(task.get());
          }
        }
      });
    }
    for (std::thread& producer : producers) producer.join();
  }
  for (const auto& task : tasks) EXPECT_EQ(task->seen, 3 * kRounds);
}

}  // namespace
}  // namespace dunlin::server
