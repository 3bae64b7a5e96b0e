// SPDX-License-Identifier: Apache-2.0
// A server that would not get its threads or descriptors says so. Each limit is set in a process of its own.
#include "server/process/start_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>

namespace dunlin::server {
namespace {

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// Ends the process with 1 and the message, or with 0 where nothing is missing.
void CheckWith(int resource, rlim_t limit) {
  const rlimit both = {limit, limit};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) std::exit(2);
  const absl::Status status = CheckThreadsAndDescriptors(24, 16);
  std::cerr << status.ToString() << "\n";
  std::exit(status.ok() ? 0 : 1);
}

TEST(StartCheckTest, GivesBackWhatItTakes) {
  const size_t before = OpenDescriptors();
  EXPECT_TRUE(CheckThreadsAndDescriptors(24, 16).ok());
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(StartCheckTest, NamesTheLimitOfDescriptors) {
  EXPECT_EXIT(CheckWith(RLIMIT_NOFILE, 10), testing::ExitedWithCode(1),
              "gives this process [0-9] more file descriptors .Too many open files.; it needs 16 at least: "
              "ulimit -n");
  EXPECT_EXIT(CheckWith(RLIMIT_NOFILE, 64), testing::ExitedWithCode(0), "OK");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// 24 stacks of 8 MiB do not fit 100 MiB of addresses.
TEST(StartCheckTest, NamesTheLimitsOfThreads) {
  EXPECT_EXIT(CheckWith(RLIMIT_AS, rlim_t{100} << 20), testing::ExitedWithCode(1),
              "gives this process [0-9]+ more threads .Resource temporarily unavailable.; it needs 24 at least: "
              "ulimit -u, pids.max");
}
#endif

}  // namespace
}  // namespace dunlin::server
