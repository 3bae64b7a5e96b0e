// SPDX-License-Identifier: Apache-2.0
// Machines and control groups as file trees.
#include "server/models/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>

namespace dunlin::server {
namespace {

constexpr size_t kLimitMiB = size_t{1} << 20;

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() {
    Write("/proc/meminfo", "MemTotal:       16384000 kB\nMemFree:  100 kB\nMemAvailable:    8388608 kB\n");  // 8 GiB
    Write("/proc/self/statm", "100000 0 0 0 0 0 0\n");
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  MemoryLimit Find() const { return FindMemoryLimit(root_); }

  const std::string root_ = testing::TempDir() + "dunlin_memory_" + std::to_string(getpid());
};

TEST_F(MemoryLimitTest, WithoutGroupsItIsWhatTheMachineHasAvailable) {
  EXPECT_EQ(Find().bytes, 8192 * kLimitMiB);
  EXPECT_EQ(Find().source, "the machine");
}

TEST_F(MemoryLimitTest, WhatTheProcessHoldsIsItsOwn) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Write("/proc/self/statm", "100000 1000 0 0 0 0 0\n");
  EXPECT_EQ(ResidentMemory(root_), 1000 * page);
  EXPECT_EQ(Find().bytes, 8192 * kLimitMiB + 1000 * page);
}

TEST_F(MemoryLimitTest, Version2TakesTheSmallestOfNestedGroups) {
  Write("/proc/self/cgroup", "0::/pods/one\n");
  Write("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/memory.max", std::to_string(1024 * kLimitMiB));
  EXPECT_EQ(Find().bytes, 1024 * kLimitMiB);
  EXPECT_EQ(Find().source, "cgroup /sys/fs/cgroup/pods");
  Write("/sys/fs/cgroup/pods/one/memory.high", std::to_string(512 * kLimitMiB));
  EXPECT_EQ(Find().bytes, 512 * kLimitMiB);
  EXPECT_EQ(Find().source, "cgroup /sys/fs/cgroup/pods/one");
}

TEST_F(MemoryLimitTest, OthersOfAGroupTakeTheirPartAndFilesDoNot) {
  Write("/proc/self/cgroup", "0::/one\n");
  Write("/sys/fs/cgroup/one/memory.max", std::to_string(1000 * kLimitMiB));
  Write("/sys/fs/cgroup/one/memory.current", std::to_string(700 * kLimitMiB));
  Write("/sys/fs/cgroup/one/memory.stat", "anon 5\ninactive_file " + std::to_string(300 * kLimitMiB) +
                                              "\nactive_file " + std::to_string(100 * kLimitMiB) + "\nslab 1\n");
  EXPECT_EQ(Find().bytes, 700 * kLimitMiB) << "1000 without the 300 of others";
}

TEST_F(MemoryLimitTest, InsideAContainerTheLimitIsAtTheMount) {
  Write("/proc/self/cgroup", "0::/../../not/mounted/here\n");
  Write("/sys/fs/cgroup/memory.max", std::to_string(256 * kLimitMiB));
  EXPECT_EQ(Find().bytes, 256 * kLimitMiB);
  EXPECT_EQ(Find().source, "cgroup /sys/fs/cgroup");
}

TEST_F(MemoryLimitTest, Version1ReadsItsController) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  Write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Find().source, "the machine");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(2048 * kLimitMiB));
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(100 * kLimitMiB));
  Write("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 0\n");
  EXPECT_EQ(Find().bytes, 1948 * kLimitMiB);
  EXPECT_EQ(Find().source, "cgroup /sys/fs/cgroup/memory/a");
}

TEST_F(MemoryLimitTest, AGroupLargerThanTheMachineDoesNotCount) {
  Write("/proc/self/cgroup", "0::/one\n");
  Write("/sys/fs/cgroup/one/memory.max", std::to_string(size_t{1} << 45));
  EXPECT_EQ(Find().source, "the machine");
}

// As Linux writes it: names of 25 columns, then the soft limit.
std::string LimitsFile(const std::string& data, const std::string& addresses) {
  return "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max data size             " +
         data + "            unlimited            bytes     \nMax address space         " + addresses +
         "            unlimited            bytes     \n";
}

TEST_F(MemoryLimitTest, WhatMayBeMappedIsWhatTheProcessHoldsAndWhatItsLimitsLeave) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Write("/proc/self/statm", "10000 1000 300 200 0 4000 0\n");
  EXPECT_EQ(FindMappedLimit(root_).bytes, 0U) << "no file, no limit";
  Write("/proc/self/limits", LimitsFile("unlimited", "unlimited"));
  EXPECT_EQ(FindMappedLimit(root_).bytes, 0U);
  Write("/proc/self/limits", LimitsFile("unlimited", std::to_string(30000 * page)));
  EXPECT_EQ(FindMappedLimit(root_).bytes, 21000 * page) << "20000 more than the 1000 that are held";
  EXPECT_EQ(FindMappedLimit(root_).source, "ulimit -v");
  Write("/proc/self/limits", LimitsFile(std::to_string(5000 * page), std::to_string(30000 * page)));
  EXPECT_EQ(FindMappedLimit(root_).bytes, 2000 * page);
  EXPECT_EQ(FindMappedLimit(root_).source, "ulimit -d");
  EXPECT_EQ(Find().source, "the machine") << "KV pages whose addresses are mapped may still be touched";
}

TEST_F(MemoryLimitTest, ALimitThatIsSpentLeavesWhatTheProcessHolds) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Write("/proc/self/statm", "10000 1000 300 200 0 4000 0\n");
  Write("/proc/self/limits", LimitsFile("unlimited", std::to_string(9000 * page)));
  EXPECT_EQ(FindMappedLimit(root_).bytes, 1000 * page);
}

TEST(MemoryLimit, ThisProcessHasThreads) {
  const int before = CountThreads("");
  ASSERT_GT(before, 0);
  std::latch end(1);
  std::thread further([&end] { end.wait(); });
  EXPECT_EQ(CountThreads(""), before + 1);
  end.count_down();
  further.join();
}

TEST(MemoryLimit, ThisMachineHasOne) {
  EXPECT_GT(FindMemoryLimit("").bytes, 64 * kLimitMiB);
  EXPECT_GT(ResidentMemory(""), kLimitMiB);
}

}  // namespace
}  // namespace dunlin::server
