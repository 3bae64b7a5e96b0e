// SPDX-License-Identifier: Apache-2.0
// models[].speculation: a word, a number, or a section with a draft model.
#include "server/config/speculation.h"

#include <gmock/gmock.h>

#include "engine/request/types.h"
#include "tests/server/config/config_fixture.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;

class SpeculationConfigTest : public ConfigTest {
 protected:
  absl::StatusOr<Config> With(const std::string& speculation, const std::vector<std::string>& overrides = {}) {
    return Load(R"({"models": [{"name": "m", "path": "here", "speculation": )" + speculation +
                    R"(}, {"name": "small", "path": "there", "precisions": ["fp32", "bf16"]}]})",
                overrides);
  }
};

TEST_F(SpeculationConfigTest, IsAWordOrANumber) {
  EXPECT_EQ(With("\"off\"")->models[0].engine.max_drafts, 0);
  EXPECT_EQ(With("\"auto\"")->models[0].engine.max_drafts, engine::kAutoDrafts);
  EXPECT_EQ(With("\"3\"")->models[0].engine.max_drafts, 3);
  EXPECT_EQ(With("3")->models[0].engine.max_drafts, 3);
  EXPECT_EQ(With("0")->models[0].engine.max_drafts, 0);
  EXPECT_EQ(With("\"off\"", {"models.0.speculation=5"})->models[0].engine.max_drafts, 5);
  EXPECT_FALSE(With("\"auto\"")->models[0].draft.given());
  EXPECT_EQ(Load(kSmallest)->models[0].engine.max_drafts, 0);
}

TEST_F(SpeculationConfigTest, HasADraftModelByItsPathOrItsName) {
  const auto by_path = With(R"({"draft": "drafts/tiny"})");
  ASSERT_TRUE(by_path.ok()) << by_path.status();
  EXPECT_EQ(by_path->models[0].draft.source.path, folder_ + "/drafts/tiny");
  EXPECT_TRUE(by_path->models[0].draft.source.precisions.empty());
  EXPECT_EQ(by_path->models[0].draft.max_sequences, 4);
  EXPECT_EQ(by_path->models[0].engine.max_drafts, engine::kAutoDrafts) << "it is on";
  EXPECT_FALSE(by_path->models[1].draft.given());
  const auto by_name = With(R"({"draft": "small", "draft_sequences": 9, "tokens": "off"})");
  ASSERT_TRUE(by_name.ok()) << by_name.status();
  EXPECT_EQ(by_name->models[0].draft.source.path, folder_ + "/there");
  EXPECT_EQ(by_name->models[0].draft.source.precisions, std::vector{engine::Precision::kFp32});
  EXPECT_EQ(by_name->models[0].draft.max_sequences, 9);
  EXPECT_EQ(by_name->models[0].engine.max_drafts, 0);
  const auto overridden = With("\"6\"", {"models.0.speculation.draft=/drafts/tiny"});
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ(overridden->models[0].draft.source.path, "/drafts/tiny");
  EXPECT_EQ(overridden->models[0].engine.max_drafts, 6);
}

TEST_F(SpeculationConfigTest, HasTheLayerOfTheCheckpointThatPredicts) {
  const auto config = With(R"({"draft": "mtp"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->models[0].source.predictor);
  EXPECT_FALSE(config->models[0].draft.given());
  EXPECT_EQ(config->models[0].engine.max_drafts, engine::kAutoDrafts) << "it is on";
  EXPECT_FALSE(config->models[1].source.predictor);
  const auto folder = With(R"({"draft": "./mtp"})");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->models[0].draft.source.path, folder_ + "/mtp");
  EXPECT_FALSE(folder->models[0].source.predictor);
}

TEST_F(SpeculationConfigTest, NamesWhatIsWrong) {
  const auto message = [this](const std::string& speculation) {
    return std::string(With(speculation).status().message());
  };
  EXPECT_THAT(message("\"often\""),
              HasSubstr(R"(models[0].speculation.tokens is "often"; limit is one of off, auto, 0)"));
  EXPECT_THAT(message("true"), HasSubstr("models[0].speculation is true; limit is an object"));
  EXPECT_THAT(message(R"({"draft": "m"})"), HasSubstr(R"(models[0].speculation.draft is "m", the model itself)"));
  EXPECT_THAT(message(R"({"draft_sequences": 65})"),
              HasSubstr("models[0].speculation.draft_sequences is 65; limit is [1, 64]"));
  EXPECT_THAT(message(R"({"drafts": "x"})"), HasSubstr("did you mean models[0].speculation.draft?"));
}

}  // namespace
}  // namespace dunlin::server
