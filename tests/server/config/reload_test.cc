// SPDX-License-Identifier: Apache-2.0
// Which config changes a running server applies.
#include "server/config/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "server/config/key_table.h"

namespace dunlin::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Config Load(const std::vector<std::string>& overrides) {
  return LoadConfig(DUNLIN_SOURCE_DIR "/configs/demo.json", overrides).value();
}

TEST(Reload, AnUnchangedConfigAppliesNothing) {
  const ReloadResult result = TakeReloadable(Load({}), Load({}));
  EXPECT_THAT(result.taken, IsEmpty());
  EXPECT_THAT(result.left_out, IsEmpty());
}

TEST(Reload, AppliesReloadableKeysAndNamesTheOthers) {
  const Config running = Load({});
  const Config loaded =
      Load({"log.level=debug", "limits.drain_timeout_ms=7", "log.format=json", "models.0.name=other"});
  const ReloadResult result = TakeReloadable(running, loaded);
  EXPECT_THAT(result.taken, ElementsAre("limits.drain_timeout_ms", "log.level", "models.0.name"));
  EXPECT_THAT(result.left_out, ElementsAre("log.format"));
  EXPECT_EQ(result.config.log_level, "debug");
  EXPECT_EQ(result.config.drain_timeout_ms, 7);
  EXPECT_EQ(result.config.log_format, running.log_format);
  EXPECT_EQ(result.config.models[0].name, "other");
}

TEST(Reload, AppliedChangesDoNotRecurButOthersDo) {
  const Config loaded = Load({"log.level=debug", "log.format=json"});
  const ReloadResult first = TakeReloadable(Load({}), loaded);
  const ReloadResult second = TakeReloadable(first.config, loaded);
  EXPECT_THAT(second.taken, IsEmpty());
  EXPECT_THAT(second.left_out, ElementsAre("log.format"));
}

TEST(Reload, AModelThatIsAddedOrRemovedIsTaken) {
  const Config one = Load({});
  Config two = one;
  two.models.push_back(one.models[0]);
  two.values["models.1.name"] = "\"second\"";
  for (const auto& [running, loaded] : {std::pair(one, two), std::pair(two, one)}) {
    const ReloadResult result = TakeReloadable(running, loaded);
    EXPECT_THAT(result.taken, ElementsAre("models.1.name"));
    EXPECT_THAT(result.left_out, IsEmpty());
    EXPECT_EQ(result.config.models.size(), loaded.models.size());
    EXPECT_EQ(result.config.values, loaded.values);
  }
}

TEST(Reload, TheValuesOfAModelDoNotDependOnTheOrderOfItsKeys) {
  const auto values = [](const char* model) {
    return LoadConfigText(std::string(R"({"models": [)") + model + "]}", {})->models[0].values;
  };
  EXPECT_EQ(values(R"({"name": "m", "path": "/m"})"), values(R"({"path": "/m", "name": "m"})"));
  EXPECT_NE(values(R"({"name": "m", "path": "/m"})"), values(R"({"name": "m", "path": "/m", "seed": 1})"));
}

TEST(Reload, EveryKeyOfTheTableIsCompared) {
  const Config config = Load({R"(models.0.adapters=[{"name": "a", "path": "/a"}])"});
  std::set<std::string> compared;
  for (const auto& [key, value] : config.values) compared.insert(key);
  for (const ConfigKey& key : ConfigKeys()) {
    std::string path = absl::StrReplaceAll(key.path, {{"[]", ".0"}});
    const bool is_empty = key.default_json != nullptr && std::string(key.default_json) == "[]";
    if (key.type == KeyType::kStringList && !is_empty) path += ".0";
    EXPECT_TRUE(compared.contains(path)) << path;
  }
}

}  // namespace
}  // namespace dunlin::server
