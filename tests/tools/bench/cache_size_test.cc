// SPDX-License-Identifier: Apache-2.0
// The last-level cache, read from a tree with the kernel's layout.
#include "tools/bench/cache_size.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::tools::bench {
namespace {

class CacheSizeTest : public ::testing::Test {
 protected:
  CacheSizeTest() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    EXPECT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &usable)) cpus_.push_back(std::to_string(cpu));
    }
  }
  void Cache(const std::string& cpu, int index, const std::string& level, const std::string& size,
             const std::string& shared) const {
    const std::string at = "sys/devices/system/cpu/cpu" + cpu + "/cache/index" + std::to_string(index);
    std::filesystem::create_directories(root_.File(at));
    root_.Write(at + "/level", level + "\n");
    root_.Write(at + "/size", size + "\n");
    root_.Write(at + "/shared_cpu_list", shared + "\n");
  }
  size_t Bytes() const { return LastLevelCacheBytes(root_.path()); }

  engine::TempDirectory root_;
  std::vector<std::string> cpus_;
};

size_t OfTheLibrary() {
  return static_cast<size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
}

TEST_F(CacheSizeTest, CountsASharedCacheOnce) {
  for (const std::string& cpu : cpus_) {
    Cache(cpu, 0, "1", "48K", cpu);
    Cache(cpu, 3, "3", "32768K", "0-999");
    Cache(cpu, 2, "2", "1024K", cpu);
  }
  EXPECT_EQ(Bytes(), size_t{32} << 20);
  for (const std::string& cpu : cpus_) Cache(cpu, 3, "3", "16M", cpu);
  EXPECT_EQ(Bytes(), cpus_.size() * (size_t{16} << 20));
}

TEST_F(CacheSizeTest, IgnoresCachesOfOtherProcessors) {
  Cache(cpus_.front(), 2, "2", "2048K", cpus_.front());
  Cache("99999", 3, "3", "32768K", "99999");
  EXPECT_EQ(Bytes(), size_t{2} << 20);
}

TEST_F(CacheSizeTest, FallsBackToTheCLibrary) {
  EXPECT_EQ(Bytes(), OfTheLibrary());
  for (const char* size : {"", "much", "32768X", "-1K", "99999999999999K"}) {
    Cache(cpus_.front(), 3, "3", size, "0");
    EXPECT_EQ(Bytes(), OfTheLibrary()) << size;
  }
}

}  // namespace
}  // namespace dunlin::tools::bench
