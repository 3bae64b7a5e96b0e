// SPDX-License-Identifier: Apache-2.0
// A grammar that comes when the system has no thread left.
#include "server/models/grammar_lane.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace dunlin::server {
namespace {

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

// While it lives the process gets no further addresses, so that a thread has no stack. Threads that have ended leave
// theirs for the next ones: those are taken first.
class NoThreads {
 public:
  NoThreads() {
    for (int i = 0; i < 16; ++i) {
      sleepers_.emplace_back([this] { end_.WaitForNotification(); });
    }
    getrlimit(RLIMIT_AS, &before_);
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit now = {static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 20), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &now), 0);
  }
  ~NoThreads() {
    setrlimit(RLIMIT_AS, &before_);
    end_.Notify();
    for (std::thread& sleeper : sleepers_) sleeper.join();
  }

 private:
  rlimit before_ = {};
  absl::Notification end_;
  std::vector<std::thread> sleepers_;
};

TEST(GrammarLane, WithoutAThreadAGrammarIsRefusedAndALaterOneIsTaken) {
  absl::Notification done;
  absl::Status outcome;
  GrammarLane lane({}, [&](const std::shared_ptr<GrammarJob>&, const absl::StatusOr<Grammar>& grammar) {
    outcome = grammar.status();
    done.Notify();
  });
  // Cancelled, so that there is nothing to compile.
  const auto job = std::make_shared<GrammarJob>("a", text::GrammarSource{}, engine::kSharedTenant);
  job->Cancel();
  {
    const NoThreads no_threads;
    EXPECT_FALSE(lane.Add(job));
  }
  ASSERT_TRUE(lane.Add(job));
  done.WaitForNotification();
  EXPECT_EQ(outcome.code(), absl::StatusCode::kCancelled);
}

#endif

}  // namespace
}  // namespace dunlin::server
