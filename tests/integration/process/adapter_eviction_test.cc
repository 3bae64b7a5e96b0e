// SPDX-License-Identifier: Apache-2.0
// More LoRA adapters than a server's device memory has room for: they leave it and come back, with the same outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/process/adapters_fixture.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kResident = 2;
constexpr std::array<const char*, 4> kNames = {"a", "b", "c", "d"};
constexpr char kEvictions[] = R"(dunlin_model_adapter_evictions_total{model_name="demo"})";
constexpr char kRestores[] = R"(dunlin_model_adapter_restores_total{model_name="demo"})";
constexpr char kHostBytes[] = R"(dunlin_model_adapter_host_bytes{model_name="demo"})";
constexpr char kDeviceBytes[] = R"(dunlin_model_adapter_bytes{model_name="demo"})";

class AdapterEviction : public Adapters {
 protected:
  AdapterEviction() {
    for (size_t i = 0; i < kNames.size(); ++i) {
      adapters_.emplace_back(kNames[i], WriteAdapter(folder_.path(kNames[i]), 10 + i));
    }
  }

  // max_adapters: in the device's memory at once.
  std::unique_ptr<ServerProcess> ServeAll(int max_adapters, int64_t host_bytes) {
    nlohmann::json settings = WithAdapters(model_, adapters_);
    settings["max_adapters"] = max_adapters;
    settings["max_registered_adapters"] = kNames.size();
    settings["adapter_host_memory_bytes"] = host_bytes;
    folder_.WriteConfig({settings});
    auto server = std::make_unique<ServerProcess>(folder_.config());
    EXPECT_TRUE(server->ready()) << server->Log();
    return server;
  }

  // What the model and each adapter say where all are in memory.
  std::map<std::string, std::string> TextsWithoutEviction() {
    const auto server = ServeAll(static_cast<int>(kNames.size()), 0);
    std::map<std::string, std::string> texts;
    for (const std::string name : {"demo", "a", "b", "c", "d"}) {
      const Completion completion = CompleteOnce(server->http(), name);
      EXPECT_TRUE(completion.ok) << completion.text;
      texts[name] = completion.text;
    }
    EXPECT_EQ(MetricValue(HttpGet(server->http(), "/metrics"), kEvictions), 0);
    return texts;
  }

  std::vector<std::pair<std::string, std::string>> adapters_;
};

TEST_F(AdapterEviction, OnesThatComeBackSayTheSame) {
  const std::map<std::string, std::string> expected = TextsWithoutEviction();
  ASSERT_NE(expected.at("a"), expected.at("b"));
  ASSERT_NE(expected.at("a"), expected.at("demo"));
  constexpr int64_t kRoomForAll = 16 << 20;
  for (const int64_t host_bytes : {int64_t{0}, kRoomForAll}) {
    const auto server = ServeAll(kResident, host_bytes);
    double restores = MetricValue(HttpGet(server->http(), "/metrics"), kRestores);
    for (int round = 0; round < 3; ++round) {
      for (const char* name : kNames) EXPECT_EQ(CompleteOnce(server->http(), name).text, expected.at(name)) << name;
      EXPECT_EQ(CompleteOnce(server->http(), "demo").text, expected.at("demo"));
      const std::string metrics = HttpGet(server->http(), "/metrics");
      EXPECT_GE(MetricValue(metrics, kRestores), restores + kResident) << "of round " << round;
      restores = MetricValue(metrics, kRestores);
      EXPECT_GE(MetricValue(metrics, kEvictions), restores) << "one leaves for each that comes";
      EXPECT_EQ(MetricValue(metrics, R"(dunlin_model_adapters{model_name="demo"})"), kNames.size());
      EXPECT_EQ(MetricValue(metrics, R"(dunlin_model_resident_adapters{model_name="demo"})"), kResident);
      // All have one size: those that have left take as much of the host's memory as the others of the device's.
      EXPECT_EQ(MetricValue(metrics, kHostBytes), host_bytes == 0 ? 0 : MetricValue(metrics, kDeviceBytes));
    }
  }
}

TEST_F(AdapterEviction, RequestsForAllOfThemAtOnceTakeTurns) {
  const std::map<std::string, std::string> expected = TextsWithoutEviction();
  const auto server = ServeAll(kResident, 0);
  std::vector<std::unique_ptr<SteadyLoad>> loads;
  loads.reserve(expected.size());
  for (const auto& [name, text] : expected) {
    loads.push_back(std::make_unique<SteadyLoad>(server->http(), name, text, 2));
  }
  for (const auto& load : loads) EXPECT_TRUE(load->ComesToCompleted(6)) << server->Log();
  for (const auto& load : loads) load->Stop();
  for (const auto& load : loads) EXPECT_THAT(load->failures(), IsEmpty());
  EXPECT_GT(MetricValue(HttpGet(server->http(), "/metrics"), kRestores), 0);
  EXPECT_TRUE(ComesToValue(*server, R"(dunlin_model_waiting_requests{model_name="demo"})", 0));
}

TEST_F(AdapterEviction, DoesNotDisturbAStream) {
  const auto server = ServeAll(kResident, 0);
  CompletionStream alone(server->http(), "a");
  ASSERT_TRUE(alone.Began());
  const std::string text = alone.Text();
  CompletionStream stream(server->http(), "a");
  ASSERT_TRUE(stream.Began());
  const double evictions = MetricValue(HttpGet(server->http(), "/metrics"), kEvictions);
  for (const char* name : {"b", "c", "d"}) EXPECT_TRUE(CompleteOnce(server->http(), name).ok) << name;
  EXPECT_EQ(stream.Text(), text);
  EXPECT_GT(MetricValue(HttpGet(server->http(), "/metrics"), kEvictions), evictions);
}

TEST_F(AdapterEviction, OneWhoseFilesAreGoneIsRefusedAndTheRestServed) {
  const auto server = ServeAll(kResident, 0);
  const Completion first = CompleteOnce(server->http(), "a");
  ASSERT_TRUE(first.ok) << first.text;
  for (const char* name : {"b", "c"}) EXPECT_TRUE(CompleteOnce(server->http(), name).ok) << name;
  std::filesystem::rename(folder_.path("a"), folder_.path("gone"));
  const Completion refused = CompleteOnce(server->http(), "a");
  EXPECT_FALSE(refused.ok);
  EXPECT_THAT(refused.text, HasSubstr("could not be loaded"));
  for (const char* name : {"b", "c", "d"}) EXPECT_TRUE(CompleteOnce(server->http(), name).ok) << name;
  std::filesystem::rename(folder_.path("gone"), folder_.path("a"));
  EXPECT_EQ(CompleteOnce(server->http(), "a").text, first.text);
}

}  // namespace
}  // namespace dunlin::integration
