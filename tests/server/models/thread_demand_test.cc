// SPDX-License-Identifier: Apache-2.0
// The threads and descriptors that a config's server needs: what each key adds. Whether they are enough:
// tests/integration/process/start_limits_test.cc.
#include "server/models/thread_demand.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dunlin::server {
namespace {

Config ConfigWith(int models, const std::vector<std::string>& overrides = {}) {
  std::string list;
  for (int i = 0; i < models; ++i) {
    list += std::string(i == 0 ? "" : ",") + R"({"name": "m)" + std::to_string(i) + R"(", "path": "/m"})";
  }
  const auto config = LoadConfigText(R"({"models": [)" + list + "]}", overrides);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

int Added(const std::vector<std::string>& overrides) {
  return ThreadsOf(ConfigWith(2, overrides), {2, 1}).total() - ThreadsOf(ConfigWith(2), {2, 1}).total();
}

TEST(ThreadDemandTest, EachModelOfTheStartAddsItsThreads) {
  const ThreadDemand one = ThreadsOf(ConfigWith(1), {2, 1});
  const ThreadDemand three = ThreadsOf(ConfigWith(3), {2, 1});
  EXPECT_EQ(three.process, one.process);
  EXPECT_EQ(three.models, 3 * one.models);
  EXPECT_EQ(Added({"models.1.idle_unload_s=60"}), -one.models) << "a request loads it";
  EXPECT_EQ(DescriptorsOf(ConfigWith(3)), DescriptorsOf(ConfigWith(1)) + 2);
}

TEST(ThreadDemandTest, KeysOfPoolsAddTheirs) {
  EXPECT_EQ(Added({"compute.text_threads=5"}), 3) << "2 by default";
  EXPECT_EQ(Added({"compute.threads=4"}), 3) << "a caller is one of them";
  EXPECT_EQ(Added({"models.1.parallel.tensor=4"}), 3);
  EXPECT_EQ(Added({"tracing.otlp_endpoint=127.0.0.1:1"}), 1);
  const std::vector<std::string> events = {"models.0.kv_cache.event_batches=10",
                                           "models.0.kv_cache.events_endpoint=tcp://127.0.0.1:*"};
  EXPECT_EQ(Added(events), 3);
  EXPECT_GT(DescriptorsOf(ConfigWith(1, events)), DescriptorsOf(ConfigWith(1)));
}

TEST(ThreadDemandTest, ComputeThreadsCountAlsoWhereNobodyGivesTheirNumber) {
  const auto added = [](const std::vector<std::string>& overrides) {
    const Config config = ConfigWith(2, overrides);
    return ThreadsOf(config, {2, 64}).total() - ThreadsOf(config, {2, 1}).total();
  };
  EXPECT_EQ(added({}), 63);
  EXPECT_EQ(added({"models.0.device=cuda"}), 63) << "the other one is on the CPU";
  EXPECT_EQ(added({"models.0.device=cuda", "models.1.device=cuda"}), 0);
  EXPECT_EQ(added({"compute.threads=4"}), 0);
}

TEST(ThreadDemandTest, GrpcGoesByTheProcessorsOfTheMachineWithinBounds) {
  const Config config = ConfigWith(1);
  EXPECT_EQ(ThreadsOf(config, {1, 1}).total(), ThreadsOf(config, {2, 1}).total());
  EXPECT_EQ(ThreadsOf(config, {8, 1}).total(), ThreadsOf(config, {2, 1}).total() + 6 + 2);
  EXPECT_EQ(ThreadsOf(config, {1024, 1}).total(), ThreadsOf(config, {2, 1}).total() + 30 + 14);
}

TEST(ThreadDemandTest, WithoutAConfigItIsWhatAnyServerHas) {
  EXPECT_LT(ThreadsOf(Config(), {2, 1}).total(), ThreadsOf(ConfigWith(1), {2, 1}).total());
  EXPECT_GT(ThreadsOf(Config(), {2, 1}).total(), 10);
  EXPECT_LE(DescriptorsOf(Config()), DescriptorsOf(ConfigWith(1)));
}

}  // namespace
}  // namespace dunlin::server
