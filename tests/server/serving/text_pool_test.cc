// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/text_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

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

// A task that is alone in the pool runs at once: only deferring it keeps it from running.
TEST(TextPool, RunsDeferredTasksInTheirOrder) {
  constexpr int kTasks = 64;
  std::vector<int> order;
  std::vector<std::shared_ptr<CountingTask>> tasks;
  {
    TextPool pool(1);
    std::atomic<bool> release{false};
    auto blocker = std::make_shared<CountingTask>();  // prompts have one thread, so the order shows
    blocker->body = [&release] {
      while (!release) std::this_thread::yield();
    };
    pool.Schedule(blocker.get());
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(std::make_shared<CountingTask>());
      tasks.back()->body = [&order, i] { order.push_back(i); };
      pool.ScheduleLater(tasks.back().get());
      pool.ScheduleLater(tasks.back().get());  // merged
      pool.Schedule(tasks.back().get());       // merged
    }
    release = true;
    while (pool.num_run() < 1) std::this_thread::yield();
    for (const auto& task : tasks) EXPECT_EQ(task->runs, 0) << "nothing has ended its deferral";
    pool.ScheduleDeferred();
    pool.ScheduleDeferred();  // nothing is left
  }
  std::vector<int> expected(kTasks);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  for (const auto& task : tasks) EXPECT_EQ(task->runs, 1);
}

struct DeliveringTask : CountingTask {
  void Run() override {
    UseDeliveryLane();
    CountingTask::Run();
  }
};

// Blocks a thread of the pool while it is not released.
std::shared_ptr<CountingTask> Blocker(std::atomic<bool>* release) {
  auto task = std::make_shared<CountingTask>();
  task->body = [release] {
    while (!*release) std::this_thread::yield();
  };
  return task;
}

TEST(TextPool, DeliversWhileEveryOtherThreadReadsAPrompt) {
  std::atomic<bool> release{false};
  auto delivery = std::make_shared<DeliveringTask>();
  std::vector<std::shared_ptr<CountingTask>> prompts;
  TextPool pool(2);
  pool.Schedule(delivery.get());
  while (delivery->runs < 1) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    prompts.push_back(Blocker(&release));
    pool.Schedule(prompts.back().get());
  }
  while (prompts[0]->runs + prompts[1]->runs < 2) std::this_thread::yield();
  for (int i = 1; i < 50; ++i) {
    pool.Schedule(delivery.get());
    while (delivery->runs <= i) std::this_thread::yield();  // else the test runs into its time limit
  }
  release = true;
}

TEST(TextPool, DeliversBeforeItReadsPromptsThatCameEarlier) {
  std::atomic<bool> release{false};
  std::atomic<bool> release_other{false};
  std::vector<std::shared_ptr<CountingTask>> prompts;
  auto delivery = std::make_shared<DeliveringTask>();
  auto other = std::make_shared<DeliveringTask>();
  std::atomic<int> prompts_run{0};
  int prompts_before = -1;
  {
    TextPool pool(1);
    for (DeliveringTask* task : {delivery.get(), other.get()}) pool.Schedule(task);
    while (delivery->runs + other->runs < 2) std::this_thread::yield();
    other->body = [&release_other] {
      while (!release_other) std::this_thread::yield();
    };
    pool.Schedule(other.get());  // takes one of the two threads
    while (other->runs < 2) std::this_thread::yield();
    prompts.push_back(Blocker(&release));
    pool.Schedule(prompts.back().get());  // takes the other one, unless that only delivers
    for (int i = 0; i < 100; ++i) {
      prompts.push_back(std::make_shared<CountingTask>());
      prompts.back()->body = [&prompts_run] { ++prompts_run; };
      pool.Schedule(prompts.back().get());
    }
    delivery->body = [&] { prompts_before = prompts_run; };
    pool.Schedule(delivery.get());
    release = true;
    while (delivery->runs < 2) std::this_thread::yield();
    release_other = true;
  }
  EXPECT_EQ(prompts_run, 100);
  EXPECT_EQ(prompts_before, 0);
}

TEST(TextPool, ReadsPromptsWhileDeliveriesNeverEnd) {
  auto prompt = std::make_shared<CountingTask>();
  std::vector<std::shared_ptr<DeliveringTask>> deliveries;
  TextPool pool(1);
  for (int i = 0; i < 8; ++i) {
    deliveries.push_back(std::make_shared<DeliveringTask>());
    deliveries.back()->body = [&pool, &prompt, raw = deliveries.back().get()] {
      if (prompt->runs == 0) pool.Schedule(raw);
    };
    pool.Schedule(deliveries.back().get());
  }
  pool.Schedule(prompt.get());
  while (prompt->runs == 0) std::this_thread::yield();
}

// With nothing to do, and with deliveries that never end.
TEST(TextPool, TicksWhateverItDoes) {
  std::atomic<int> ticks{0};
  auto task = std::make_shared<DeliveringTask>();
  std::atomic<bool> stop{false};
  TextPool pool(1, [&ticks] { ++ticks; });
  while (ticks < 2) std::this_thread::yield();
  task->body = [&] {
    if (!stop) pool.Schedule(task.get());
  };
  pool.Schedule(task.get());
  const int before = ticks;
  while (ticks < before + 2) std::this_thread::yield();
  stop = true;
}

TEST(TextPool, CountsTheTurnsOfTheThreadThatOnlyDelivers) {
  absl::Notification reads;
  absl::Notification delivers;
  absl::Notification let_go;
  auto prompt = std::make_shared<CountingTask>();
  auto delivery = std::make_shared<DeliveringTask>();
  prompt->body = [&] {
    reads.Notify();
    let_go.WaitForNotification();
  };
  delivery->body = [&] {
    if (delivery->runs < 2) return;  // on the other thread
    delivers.Notify();
    let_go.WaitForNotification();
  };
  TextPool pool(1);
  pool.Schedule(delivery.get());
  while (delivery->runs < 1 || pool.num_delivery_turns() < 2) std::this_thread::yield();
  pool.Schedule(prompt.get());
  reads.WaitForNotification();
  pool.Schedule(delivery.get());  // for the one thread that is left
  delivers.WaitForNotification();
  const uint64_t turns = pool.num_delivery_turns();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ(pool.num_delivery_turns(), turns);
  let_go.Notify();
  while (pool.num_delivery_turns() < turns + 2) std::this_thread::yield();
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
