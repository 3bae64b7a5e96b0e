// SPDX-License-Identifier: Apache-2.0
// Which version of a model in a repository folder is served.
#include "server/config/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/config/config_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kHour = absl::Hours(1);

class ModelFolderTest : public ConfigTest {
 protected:
  std::string path(const std::string& name) const { return repository_ + "/" + name; }
  // A version with a file in it.
  void Write(const std::string& version, const std::string& file = "config.json") const {
    std::filesystem::create_directories(path(version));
    std::ofstream(path(version) + "/" + file) << "x";
  }
  // A time that what was written before has not reached, and what is written later is not before: files have times of
  // the kernel's coarse clock.
  static absl::Time Between() {
    absl::SleepFor(absl::Milliseconds(50));
    const absl::Time now = absl::Now();
    absl::SleepFor(absl::Milliseconds(50));
    return now;
  }
  // The paths that are found, relative to the folder.
  std::vector<std::string> Found(absl::Duration settle, absl::Time now, const ModelPaths* served) const {
    std::vector<std::string> paths;
    const absl::StatusOr<FoundModels> found = FindModels(repository_, settle, now, served);
    for (const FoundModel& model : found.value().models) {
      paths.push_back(model.path.substr(repository_.size() + 1));
    }
    return paths;
  }
  std::vector<std::string> FoundLater() const { return Found(kHour, absl::Now() + 2 * kHour, &none_); }

  const std::string repository_ = folder_ + "/repository";
  const ModelPaths none_{};
};

TEST_F(ModelFolderTest, NamesThatAreNotUtf8AreLeftOut) {
  Write("a/1");
  Write("caf\xe9/1");
  Write("b/1", "mod\xe9l.gguf");
  Write("c/1");
  Write("c/2", "mod\xe9l.gguf");
  EXPECT_THAT(FoundLater(), ElementsAre("a/1", "c/1"));
  const auto found = FindModels(repository_, kHour, absl::Now() + 2 * kHour, &none_);
  EXPECT_THAT(found->left_out,
              ElementsAre(path("b/1") + "/mod\xe9l.gguf", path("c/2") + "/mod\xe9l.gguf", path("caf\xe9")));
  const std::string before = StampOf(found);
  Write("d\xe9/1");
  EXPECT_NE(StampOf(FindModels(repository_, kHour, absl::Now() + 2 * kHour, &none_)), before) << "it is news";
  const auto config = LoadConfigText(R"({"model_repository": {"path": ")" + repository_ + R"("}})", {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->left_out_of_repository.size(), 4U);
}

TEST_F(ModelFolderTest, TheLargestNumberIsServedAndOtherNamesAreLeftOut) {
  Write("a/2");
  Write("a/10");
  Write("a/9");
  Write("a/11.tmp");
  Write("a/.12");
  Write("a/013");
  Write("a/-14");
  Write("b/1", "model.gguf");
  Write("c/1");
  Write("c/1", "one.gguf");
  Write("c/1", "two.gguf");
  Write(".d/1");
  Write("e/latest");
  std::ofstream(path("f")) << "a file";
  EXPECT_THAT(FoundLater(), ElementsAre("a/10", "b/1/model.gguf", "c/1"));
  std::filesystem::remove_all(path("a/10"));
  EXPECT_THAT(FoundLater(), ElementsAre("a/9", "b/1/model.gguf", "c/1"));
}

TEST_F(ModelFolderTest, AVersionIsLeftAloneUntilItsFilesHaveSettled) {
  Write("a/1");
  const absl::Time between = Between();
  Write("a/2");
  Write("b/1");
  EXPECT_THAT(Found(absl::ZeroDuration(), between, &none_), ElementsAre("a/1")) << "b is not there yet";
  EXPECT_THAT(Found(absl::ZeroDuration(), between, nullptr), ElementsAre("a/1", "b/1")) << "a start has nothing else";
  EXPECT_THAT(FoundLater(), ElementsAre("a/2", "b/1"));
  const absl::Time later = Between();
  EXPECT_THAT(Found(absl::ZeroDuration(), later, &none_), ElementsAre("a/2", "b/1"));
  std::ofstream(path("a/2/config.json"), std::ios::app) << "more";
  EXPECT_THAT(Found(absl::ZeroDuration(), later, &none_), ElementsAre("a/1", "b/1")) << "it is being written again";
}

TEST_F(ModelFolderTest, WhatIsServedGoesOnWhileNothingHasSettled) {
  Write("a/1");
  Write("a/2");
  const ModelPaths served = {{"a", path("a/1")}};
  EXPECT_THAT(Found(kHour, absl::Now(), &served), ElementsAre("a/1"));
  std::filesystem::remove_all(path("a/1"));
  EXPECT_THAT(Found(kHour, absl::Now(), &served), IsEmpty());
}

TEST_F(ModelFolderTest, TheStampFollowsTheFilesOfTheVersionThatIsServed) {
  Write("a/1");
  Write("a/2");
  Write("a/2/1_Pooling");
  const auto stamp = [this] { return StampOf(FindModels(repository_, kHour, absl::Now() + 2 * kHour, &none_)); };
  const std::string before = stamp();
  EXPECT_EQ(stamp(), before);
  std::ofstream(path("a/1/config.json"), std::ios::app) << "more";
  EXPECT_EQ(stamp(), before) << "nobody serves it";
  std::ofstream(path("a/2/1_Pooling/config.json"), std::ios::app) << "more";
  const std::string changed = stamp();
  EXPECT_NE(changed, before);
  Write("a/3");
  EXPECT_NE(stamp(), changed);
  EXPECT_EQ(StampOf(FindModels(path("nowhere"), kHour, absl::Now(), &none_)), "");
}

TEST_F(ModelFolderTest, ItsModelsJoinThoseOfTheConfig) {
  Write("a/1");
  Write("a/2");
  Write("b/7");
  const std::string text = R"({"model_repository": {"path": "repository", "settle_s": 3600},
      "models": [{"name": "a", "deterministic": false}, {"name": "b", "path": "repository/b/3"},
                 {"name": "m", "path": "here"}]})";
  const absl::StatusOr<Config> config = Load(text);
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->models.size(), 3U);
  EXPECT_EQ(config->models[0].source.path, path("a/2"));
  EXPECT_FALSE(config->models[0].engine.deterministic);
  EXPECT_EQ(config->models[1].source.path, path("b/3")) << "the path of the config says which version";
  Write("c/1");
  std::filesystem::remove_all(path("a"));
  Write("a/1");
  std::vector<ModelSettings> served = config->models;
  served[0].source.path = path("a/1");
  const absl::StatusOr<Config> later = WithRepository(*config, served);
  ASSERT_TRUE(later.ok()) << later.status();
  ASSERT_EQ(later->models.size(), 3U) << "c has not settled";
  EXPECT_EQ(later->models[0].source.path, path("a/1"));
  EXPECT_FALSE(later->models[0].engine.deterministic);
}

TEST_F(ModelFolderTest, AFolderWithoutModelsIsAnError) {
  const std::string text = R"({"model_repository": {"path": "repository"}})";
  EXPECT_THAT(std::string(Load(text).status().message()), HasSubstr("model_repository.path is \""));
  std::filesystem::create_directories(repository_);
  EXPECT_THAT(std::string(Load(text).status().message()), HasSubstr("MODEL/1, MODEL/2"));
  Write("a/1");
  EXPECT_TRUE(Load(text).ok());
}

}  // namespace
}  // namespace dunlin::server
