// SPDX-License-Identifier: Apache-2.0
// Memory nodes in a tree of files laid out as sysfs has them, and how ranks are laid over them.
#include "engine/parallel/rank_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NodeTree : public ::testing::Test {
 protected:
  NodeTree() : root_(::testing::TempDir() + "dunlin_nodes_" + std::to_string(getpid())) {}
  ~NodeTree() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path file = root_ + "/sys/devices/system/node/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void WriteTwoSockets() {
    Write("online", "0-1,3");
    Write("node0/cpulist", "0-3,8-9");
    Write("node1/cpulist", "4-7");
    Write("node3/cpulist", "");  // memory alone
  }
  const std::string root_;
};

TEST(CpuList, IsRangesAndNumbers) {
  EXPECT_THAT(ParseCpuList("0-2,5,9-10"), ElementsAre(0, 1, 2, 5, 9, 10));
  EXPECT_THAT(ParseCpuList("7"), ElementsAre(7));
  EXPECT_THAT(ParseCpuList(""), IsEmpty());
  EXPECT_THAT(ParseCpuList("x,3-,4"), ElementsAre(4));
}

TEST_F(NodeTree, NodesHaveTheUsableProcessors) {
  WriteTwoSockets();
  const std::vector<MemoryNode> nodes = FindMemoryNodes(root_, {1, 2, 5, 9});
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].id, 0);
  EXPECT_THAT(nodes[0].cpus, ElementsAre(1, 2, 9));
  EXPECT_EQ(nodes[1].id, 1);
  EXPECT_THAT(nodes[1].cpus, ElementsAre(5));
  EXPECT_EQ(FindMemoryNodes(root_, {4, 5}).size(), 1U);
}

TEST_F(NodeTree, NoFilesMeanNoNodes) {
  EXPECT_THAT(FindMemoryNodes(root_, {0, 1}), IsEmpty());
}

TEST_F(NodeTree, RanksAreLaidOverTheNodesInTurn) {
  WriteTwoSockets();
  const std::vector<MemoryNode> nodes = FindMemoryNodes(root_, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<std::vector<int>> cpus = CpusOfRanks(4, nodes);
  ASSERT_EQ(cpus.size(), 4U);
  for (size_t rank = 0; rank < cpus.size(); ++rank) EXPECT_EQ(cpus[rank], nodes[rank / 2].cpus);
  EXPECT_THAT(CpusOfRanks(1, nodes), ElementsAre(nodes[0].cpus));
  EXPECT_THAT(CpusOfRanks(2, {nodes[0]}), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(RankDevices, ShareTheThreads) {
  EXPECT_THAT(ThreadsOfRanks(3, 7), ElementsAre(2, 2, 3));
  EXPECT_THAT(ThreadsOfRanks(2, 1), ElementsAre(1, 1));
  std::string error;
  const auto whole = kernels::OpenDevice(kernels::DeviceKind::kCpu, {5, ""}, &error);
  ASSERT_NE(whole, nullptr) << error;
  const auto ranks = OpenRankDevices(*whole, {5, ""}, 2);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  ASSERT_EQ(ranks->size(), 2U);
  EXPECT_THAT((*ranks)[0]->description, ::testing::HasSubstr(", 2 threads)"));
  EXPECT_THAT((*ranks)[1]->description, ::testing::HasSubstr(", 3 threads)"));
}

TEST(RankDevices, ThreadsAreBoundToProcessorsForAWhile) {
  const std::vector<int> allowed = AllowedCpus();
  ASSERT_FALSE(allowed.empty());
  {
    const ScopedCpus bound({allowed.back()});
    EXPECT_THAT(AllowedCpus(), ElementsAre(allowed.back()));
    std::thread([&] { EXPECT_THAT(AllowedCpus(), ElementsAre(allowed.back())); }).join();
    const ScopedCpus unbound({});
    EXPECT_THAT(AllowedCpus(), ElementsAre(allowed.back()));
  }
  EXPECT_EQ(AllowedCpus(), allowed);
}

}  // namespace
}  // namespace dunlin::engine
