// SPDX-License-Identifier: Apache-2.0
// Each thread of a server that is the server's own has a name, as top -H, gdb and perf show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

// Sorted.
std::vector<std::string> ThreadNames(const ServerProcess& server) {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(server.pid()) + "/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ThreadNames, SayWhatEachThreadDoes) {
  const ServerProcess server(ServerProcess::Arguments{
      {DUNLIN_SOURCE_DIR "/models/demo", DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_sentence", "--grpc",
       "127.0.0.1:0", "--http", "127.0.0.1:0", "--set", "compute.threads=3", "--set", "compute.text_threads=2", "--set",
       "tracing.otlp_endpoint=127.0.0.1:1", "--set", "models.0.kv_cache.event_batches=10", "--set",
       "models.0.kv_cache.events_endpoint=tcp://127.0.0.1:*"}});
  ASSERT_TRUE(server.ready()) << server.Log();
  std::vector<std::string> names = ThreadNames(server);
  // READY is printed by a thread of the loading, which goes on to its end, and a thread has its name once it runs.
  for (int tries = 0; tries < 500 && (absl::c_linear_search(names, "loader") || absl::c_count(names, "dunlin") > 1);
       ++tries) {
    absl::SleepFor(absl::Milliseconds(10));
    names = ThreadNames(server);
  }
  EXPECT_THAT(names,
              IsSupersetOf({"compute-1", "compute-2", "delivery", "encoder", "engine", "grpc-accept", "http",
                            "kv-events", "log", "masks", "model-loader", "spans", "text-0", "text-1", "watchdog"}));
  EXPECT_THAT(names, Not(Contains("loader"))) << "it ends with the loading";
}

}  // namespace
}  // namespace dunlin::integration
