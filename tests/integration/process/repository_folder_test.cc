// SPDX-License-Identifier: Apache-2.0
// A folder of models that is followed while the server runs: new models and versions, broken ones, copies that take
// long, and what is taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"
#include "tests/integration/process/live_server.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFailed = R"(dunlin_model_last_load_failed{model_name="demo"})";
const std::string kLoads = R"(dunlin_model_loads_total{model_name="demo"})";

void WriteFolderConfig(const LiveFolder& folder, int settle_s) {
  nlohmann::json demo = LiveFolder::Model("demo", "");
  demo.erase("path");
  std::ofstream(folder.config()) << nlohmann::json{
      {"model_repository", {{"path", "repository"}, {"poll_s", 1}, {"settle_s", settle_s}}}, {"models", {demo}}};
}

TEST(RepositoryFolder, NewVersionsReplaceThoseThatAreServedAndBrokenOnesDoNot) {
  const LiveFolder folder("repository");
  folder.CopyModel("repository/demo/1");
  folder.CopyModel("repository/demo/notes");
  WriteFolderConfig(folder, 0);
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  const Completion expected = CompleteOnce(server.http(), "demo");
  ASSERT_TRUE(expected.ok) << expected.text;
  SteadyLoad load(server.http(), "demo", expected.text, 2);
  EXPECT_EQ(admin.StatusOf("demo").loads(), 1U);

  // Copied under another name, then renamed.
  folder.CopyModel("repository/demo/2.copy");
  std::filesystem::rename(folder.path("repository/demo/2.copy"), folder.path("repository/demo/2"));
  EXPECT_TRUE(ComesToValue(server, kLoads, 2)) << server.Log();

  // A version without its weights is refused, and taken once it has them.
  std::filesystem::create_directories(folder.path("repository/demo/10"));
  std::filesystem::copy(kDemoModel + "/config.json", folder.path("repository/demo/10/config.json"));
  EXPECT_TRUE(ComesToValue(server, kFailed, 1)) << server.Log();
  EXPECT_THAT(admin.StatusOf("demo").failure(), HasSubstr("repository/demo/10"));
  EXPECT_EQ(admin.StatusOf("demo").state(), v1::MODEL_STATE_READY);
  folder.CopyModel("10.copy");
  std::filesystem::remove_all(folder.path("repository/demo/10"));
  std::filesystem::rename(folder.path("10.copy"), folder.path("repository/demo/10"));
  EXPECT_TRUE(ComesToValue(server, kLoads, 3)) << server.Log();
  EXPECT_TRUE(ComesToValue(server, kFailed, 0)) << server.Log();

  // A version that is taken away: the one before is served again.
  std::filesystem::remove_all(folder.path("repository/demo/10"));
  EXPECT_TRUE(ComesToValue(server, kLoads, 4)) << server.Log();
  load.Stop();
  EXPECT_THAT(load.failures(), IsEmpty());
}

TEST(RepositoryFolder, ModelsComeAndGoAndAnEmptyFolderChangesNothing) {
  const LiveFolder folder("repository_models");
  folder.CopyModel("repository/demo/1");
  WriteFolderConfig(folder, 0);
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  ModelAdmin admin(server.grpc());
  folder.CopyModel("other");
  std::filesystem::create_directories(folder.path("repository/other"));
  std::filesystem::rename(folder.path("other"), folder.path("repository/other/3"));
  EXPECT_TRUE(admin.ComesTo("other", v1::MODEL_STATE_READY)) << server.Log();
  std::filesystem::remove_all(folder.path("repository/other"));
  EXPECT_TRUE(admin.ComesTo("other", v1::MODEL_STATE_UNSPECIFIED)) << server.Log();
  std::filesystem::rename(folder.path("repository"), folder.path("unmounted"));
  EXPECT_TRUE(ComesToLog(server, "model_repository: models unchanged"));
  EXPECT_TRUE(CompleteOnce(server.http(), "demo").ok);
}

TEST(RepositoryFolder, WhatIsLeftOutForItsNameIsWarnedOfOnce) {
  const LiveFolder folder("repository_names");
  folder.CopyModel("repository/demo/1");
  std::filesystem::create_directories(folder.path("repository/caf\xe9/1"));
  WriteFolderConfig(folder, 0);
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log();
  const auto count = [&server](const std::string& words) {
    int found = 0;
    const std::string log = server.Log();
    for (size_t at = 0; (at = log.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  const std::string first = R"(repository/caf\xe9 is left out: its name is not UTF-8)";
  EXPECT_TRUE(ComesToLog(server, first)) << server.Log();
  std::filesystem::create_directories(folder.path("repository/th\xe9/1"));
  EXPECT_TRUE(ComesToLog(server, R"(repository/th\xe9 is left out: its name is not UTF-8)")) << server.Log();
  EXPECT_EQ(count(first), 1) << server.Log();
  EXPECT_TRUE(CompleteOnce(server.http(), "demo").ok);
}

TEST(RepositoryFolder, ACopyThatIsStillBeingWrittenIsLeftAlone) {
  const LiveFolder folder("repository_copy");
  folder.CopyModel("repository/demo/1");
  WriteFolderConfig(folder, 86400);
  const ServerProcess server(folder.config());
  ASSERT_TRUE(server.ready()) << server.Log() << "a start takes what there is";
  ModelAdmin admin(server.grpc());
  std::filesystem::create_directories(folder.path("repository/demo/2"));
  std::filesystem::copy(kDemoModel + "/config.json", folder.path("repository/demo/2/config.json"));
  folder.CopyModel("repository/other/1");
  server.Signal(SIGHUP);
  EXPECT_TRUE(ComesToLog(server, "reload: applied: nothing")) << server.Log();
  EXPECT_EQ(admin.StatusOf("demo").loads(), 1U);
  EXPECT_EQ(admin.StatusOf("demo").load_failures(), 0U);
  EXPECT_EQ(admin.StatusOf("other").state(), v1::MODEL_STATE_UNSPECIFIED);
}

}  // namespace
}  // namespace dunlin::integration
