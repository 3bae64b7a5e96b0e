// SPDX-License-Identifier: Apache-2.0
// The LoRA adapters of models[]: names, limits, and the paths that calls may load from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/config/config_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

class AdapterConfigTest : public ConfigTest {
 protected:
  // Of one model "m" with these members.
  absl::StatusOr<Config> With(const std::string& members) {
    return Load(absl::StrCat(R"({"models": [{"name": "m", "path": "here", )", members, "}]}"));
  }
  std::string ErrorOf(const std::string& members) {
    const auto config = With(members);
    EXPECT_FALSE(config.ok()) << members;
    return std::string(config.status().message());
  }
};

TEST_F(AdapterConfigTest, AreNoneByDefault) {
  const auto config = Load(kSmallest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->models[0].adapters.list.empty());
  EXPECT_EQ(config->models[0].engine.adapters.max_adapters, 0);
}

TEST_F(AdapterConfigTest, PathsAreRelativeToTheConfigsFolder) {
  const auto config = With(R"("adapters": [{"name": "a", "path": "x"}, {"name": "b", "path": "/y"}],
                              "adapter_folder": "allowed", "max_adapter_rank": 8, "adapter_memory_bytes": 2097152)");
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelSettings& model = config->models[0];
  ASSERT_EQ(model.adapters.list.size(), 2U);
  EXPECT_EQ(model.adapters.list[0], (AdapterSource{"a", folder_ + "/x"}));
  EXPECT_EQ(model.adapters.list[1], (AdapterSource{"b", "/y"}));
  EXPECT_EQ(model.adapters.folder, folder_ + "/allowed");
  EXPECT_EQ(model.engine.adapters.max_adapters, 2) << "as many as there are";
  EXPECT_EQ(model.engine.adapters.max_rank, 8);
  EXPECT_EQ(model.engine.adapters.max_bytes, 2097152U);
}

TEST_F(AdapterConfigTest, AreThoseOfDividedModelsToo) {
  const auto config = With(R"("parallel": {"tensor": 2}, "adapters": [{"name": "a", "path": "x"}])");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].source.num_ranks, 2);
  EXPECT_EQ(config->models[0].engine.adapters.max_adapters, 1);
}

TEST_F(AdapterConfigTest, MoreNamesThanAreInMemory) {
  const auto config = With(R"("max_adapters": 1, "max_registered_adapters": 3, "adapter_host_memory_bytes": 4096,
                              "adapters": [{"name": "a", "path": "x"}, {"name": "b", "path": "y"}])");
  ASSERT_TRUE(config.ok()) << config.status();
  const engine::AdapterLimits& limits = config->models[0].engine.adapters;
  EXPECT_EQ(limits.max_adapters, 1);
  EXPECT_EQ(limits.max_registered, 3);
  EXPECT_EQ(limits.max_host_bytes, 4096U);
  const auto plain = With(R"("max_adapters": 2)");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->models[0].engine.adapters.max_registered, 2) << "none is evicted";
}

TEST_F(AdapterConfigTest, TheListIsNoPartOfAModelsVersion) {
  const auto one = With(R"("max_adapters": 4, "adapters": [{"name": "a", "path": "x"}])");
  const auto two = With(R"("max_adapters": 4, "adapters": [{"name": "b", "path": "x"}])");
  const auto other = With(R"("max_adapters": 5)");
  ASSERT_TRUE(one.ok() && two.ok() && other.ok());
  EXPECT_EQ(one->models[0].values, two->models[0].values);
  EXPECT_NE(one->models[0].values, other->models[0].values);
}

TEST_F(AdapterConfigTest, ErrorsNameTheKey) {
  EXPECT_THAT(ErrorOf(R"("adapters": [{"name": "m", "path": "x"}])"),
              HasSubstr(R"(models[0].adapters[0].name is "m"; limit is a name that no other model or adapter has)"));
  EXPECT_THAT(ErrorOf(R"("adapters": [{"name": "a", "path": "x"}, {"name": "a", "path": "y"}])"),
              HasSubstr(R"(models[0].adapters[1].name is "a")"));
  EXPECT_THAT(ErrorOf(R"("adapters": [{"name": "a@fp8", "path": "x"}])"),
              HasSubstr("models[0].adapters[0].name has an '@'"));
  EXPECT_THAT(ErrorOf(R"("adapters": [{"name": "a"}])"), HasSubstr("models[0].adapters[0].path must be given"));
  EXPECT_THAT(ErrorOf(R"("adapters": [{"name": "a", "path": "x", "rank": 3}])"),
              HasSubstr("models[0].adapters[0].rank is not a config key"));
  EXPECT_THAT(ErrorOf(R"("adapters": {"name": "a", "path": "x"})"), HasSubstr("models[0].adapters is "));
  EXPECT_THAT(ErrorOf(R"("max_adapters": 1, "adapters": [{"name": "a", "path": "x"}, {"name": "b", "path": "y"}])"),
              HasSubstr("models[0].adapters has 2 entries; limit is 1 (models[0].max_adapters)"));
  EXPECT_THAT(ErrorOf(R"("max_adapters": 4, "max_registered_adapters": 3)"),
              HasSubstr("models[0].max_registered_adapters is 3; limit is [4, 1024] (models[0].max_adapters), or 0"));
  EXPECT_THAT(ErrorOf(R"("max_registered_adapters": 3)"),
              HasSubstr("models[0].max_registered_adapters is 3; limit is 0 where models[0].max_adapters is 0"));
  EXPECT_THAT(ErrorOf(R"("max_adapters": 1, "max_registered_adapters": 2, "adapters": [{"name": "a", "path": "x"},
                          {"name": "b", "path": "y"}, {"name": "c", "path": "z"}])"),
              HasSubstr("models[0].adapters has 3 entries; limit is 2 (models[0].max_registered_adapters)"));
  EXPECT_THAT(ErrorOf(R"("max_adapter_rank": 257)"), HasSubstr("models[0].max_adapter_rank is 257; limit is [1, 256]"));
}

TEST_F(AdapterConfigTest, OverridesReachThem) {
  const auto config = Load(kSmallest, {R"(models.0.adapters=[{"name": "a", "path": "/x"}])", "models.0.max_adapters=3",
                                       "models.0.adapters.0.path=/y"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].adapters.list[0].path, "/y");
  EXPECT_EQ(config->models[0].adapters.max_adapters, 3);
}

TEST_F(AdapterConfigTest, CallsLoadFromTheFolderAlone) {
  AdapterSettings settings;
  EXPECT_EQ(*ResolveAdapterPath(settings, "/a/../b"), "/b");
  EXPECT_FALSE(ResolveAdapterPath(settings, "a").ok());
  EXPECT_FALSE(ResolveAdapterPath(settings, "").ok());
  EXPECT_FALSE(ResolveAdapterPath(settings, std::string(5000, '/')).ok());
  settings.folder = folder_ + "/allowed";
  std::filesystem::create_directories(settings.folder + "/a");
  std::filesystem::create_directory_symlink(folder_, settings.folder + "/link");
  const std::string real = std::filesystem::canonical(settings.folder).string();
  EXPECT_EQ(*ResolveAdapterPath(settings, "a"), real + "/a");
  EXPECT_EQ(*ResolveAdapterPath(settings, "new"), real + "/new") << "the load says that nothing is there";
  EXPECT_EQ(*ResolveAdapterPath(settings, real + "/a"), real + "/a");
  for (const char* path : {"..", ".", "", "../allowed2", "link", "link/x", "/etc"}) {
    EXPECT_FALSE(ResolveAdapterPath(settings, path).ok()) << path;
  }
}

}  // namespace
}  // namespace dunlin::server
