// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/context/usable_cpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/cpu/context/thread_pool.h"

namespace dunlin::kernels::cpu {
namespace {

class CgroupTree : public testing::Test {
 protected:
  CgroupTree() : root_(testing::TempDir() + "dunlin_cgroup_" + std::to_string(getpid())) {}
  ~CgroupTree() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string root_;
};

TEST_F(CgroupTree, NoFilesMeanNoQuota) {
  EXPECT_EQ(CgroupCpuQuota(root_), 0);
}

TEST_F(CgroupTree, V2QuotaIsRoundedUp) {
  Write("/proc/self/cgroup", "0::/pod/box\n");
  Write("/sys/fs/cgroup/pod/box/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 3);
}

TEST_F(CgroupTree, V2MaxIsNoQuota) {
  Write("/proc/self/cgroup", "0::/pod\n");
  Write("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 0);
}

TEST_F(CgroupTree, TheSmallestQuotaOnTheWayUpCounts) {
  Write("/proc/self/cgroup", "0::/slice/pod/box\n");
  Write("/sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  Write("/sys/fs/cgroup/slice/pod/box/cpu.max", "800000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 2);
}

TEST_F(CgroupTree, ContainerRootCountsWhenThePathIsNotMounted) {
  Write("/proc/self/cgroup", "0::/../elsewhere\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 1);
}

TEST_F(CgroupTree, V1QuotaIsReadUnderTheControllersMount) {
  Write("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/docker/x\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 4);
}

TEST_F(CgroupTree, V1MinusOneIsNoQuota) {
  Write("/proc/self/cgroup", "1:cpu:/\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 0);
}

TEST(UsableCpus, IsAtLeastOne) {
  EXPECT_GE(UsableCpus(), 1);
}

}  // namespace
}  // namespace dunlin::kernels::cpu
