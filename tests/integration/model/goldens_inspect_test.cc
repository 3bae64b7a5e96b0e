// SPDX-License-Identifier: Apache-2.0
// What `dunlin inspect` shows of every golden model: its family, sizes, and each profile with the reasons against it.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/model/load/inspect.h"
#include "engine/runtime/profiles.h"
#include "nlohmann/json.hpp"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

class GoldensInspect : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldensInspect, ShowsTheFamilyAndEveryProfile) {
  const std::string path = GoldenModelPath(GetParam());
  const TestModel test = LoadTestModel(path, "", 1, kAllPrecisions);
  ModelSource source;
  source.path = path;
  const absl::StatusOr<ModelSummary> summary = InspectModel(source, *test.device->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  std::ifstream file(path + "/config.json");
  EXPECT_EQ(summary->config.architecture, nlohmann::json::parse(file).at("model_type").get<std::string>());
  EXPECT_TRUE(summary->warnings.empty()) << summary->warnings.front();
  EXPECT_EQ(summary->num_parameters, test.model->num_parameters());
  for (const Precision precision : kAllPrecisions) {
    EXPECT_EQ(summary->weight_bytes[static_cast<size_t>(precision)], test.model->weight_bytes(precision));
  }

  const ProfileTable all(summary->config, kAllPrecisions, *test.device, EngineOptions());
  EXPECT_EQ(all.rows().size(), 3U * kernels::kNumPrecisions);
  for (const ProfileSupport& row : all.rows()) {
    EXPECT_TRUE(row.supported && row.reasons.empty()) << kernels::Name(row.profile.attention_backend);
  }
  EngineOptions without_flash;
  without_flash.Enable(AttentionBackend::kFlash, false);
  const ProfileTable some(summary->config, {Precision::kBf16}, *test.device, without_flash);
  for (const ProfileSupport& row : some.rows()) {
    const bool flash = row.profile.attention_backend == AttentionBackend::kFlash;
    const bool resident = row.profile.precision == Precision::kBf16;
    EXPECT_EQ(row.supported, resident && !flash);
    EXPECT_EQ(row.reasons.size(), (flash ? 1U : 0U) + (resident ? 0U : 1U));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldensInspect, ::testing::ValuesIn(GoldenModelNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
