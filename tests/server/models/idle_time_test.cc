// SPDX-License-Identifier: Apache-2.0
// A model that requests load: when it leaves the memory by itself, and by EndIdleTime. The loader's thread is the
// test's own.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/models/model_lifecycle.h"

namespace dunlin::server {
namespace {

// Serves models without anything in them.
class EmptyModels final : public ModelLoading {
 public:
  absl::StatusOr<std::vector<PlannedModel>> PlanStart(const Config& config) override {
    std::vector<PlannedModel> planned;
    for (const ModelSettings& settings : config.models) {
      if (settings.idle_unload_s == 0) planned.push_back(Plan(settings));
    }
    return planned;
  }
  absl::StatusOr<PlannedModel> PlanAdded(const ModelSettings& settings, const std::vector<ModelMemory>& /*residents*/,
                                         size_t /*kv_bytes*/) override {
    return Plan(settings);
  }
  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const PlannedModel& planned,
                                                    std::shared_ptr<engine::StepObserver> /*step_observer*/,
                                                    const std::atomic<bool>& /*stop*/) override {
    auto model = std::make_unique<ServedModel>();
    model->name = planned.settings.name;
    return model;
  }
  absl::Status CheckGolden(const ModelSettings& /*settings*/, const ServedModel& /*model*/,
                           const std::atomic<bool>& /*stop*/) override {
    return absl::OkStatus();
  }
  absl::Time Now() const override { return now; }
  void Sleep(absl::Duration time) override { now += time; }

  absl::Time now = absl::FromUnixSeconds(1000);

 private:
  static PlannedModel Plan(const ModelSettings& settings) {
    PlannedModel planned;
    planned.settings = settings;
    planned.memory.name = settings.name;
    return planned;
  }
};

class IdleTime : public testing::Test {
 protected:
  void SetUp() override {
    Config config;
    config.models.resize(2);
    config.models[0].name = "idle";
    config.models[0].idle_unload_s = 60;
    config.models[0].load_wait_ms = 1000;
    config.models[0].engine.max_queued_requests = 1;
    config.models[1].name = "kept";
    LifecycleHooks hooks;
    hooks.on_loading = [](const std::string&) { return nullptr; };
    hooks.on_failed = [](const std::string&) {};
    hooks.on_served = [](const ModelSettings&) { return absl::OkStatus(); };
    lifecycle_ = std::make_unique<ModelLifecycle>(&repository_, &loading_, hooks, absl::Seconds(1));
    const std::atomic<bool> stop{false};
    ASSERT_TRUE(lifecycle_->LoadAll(config, stop).ok());
  }
  void TearDown() override {
    lifecycle_->Stop();
    for (const char* name : {"idle", "kept"}) repository_.Remove(name);
  }

  void Run() {
    (void)lifecycle_->RunNext(false);
    repository_.FreeUnleased();
  }
  uint64_t Use() {
    const auto use = lifecycle_->BeginUse("idle", absl::InfiniteFuture(), [](const absl::Status&) {});
    EXPECT_TRUE(use.ok());
    if (!use->ready) Run();
    EXPECT_EQ(Status().state, ModelState::kReady);
    return use->id;
  }
  void EndUse(uint64_t id) { lifecycle_->EndUse("idle", id); }
  ModelStatus Status(const std::string& model = "idle") const { return *lifecycle_->Find(model); }

  ModelRepository repository_;
  EmptyModels loading_;
  std::unique_ptr<ModelLifecycle> lifecycle_;
};

TEST_F(IdleTime, IsOverSoManySecondsAfterTheLastUse) {
  EXPECT_EQ(Status().unloads_at, absl::InfiniteFuture()) << "it is not in memory";
  EXPECT_EQ(Status("kept").unloads_at, absl::InfiniteFuture());
  const uint64_t use = Use();
  loading_.now += absl::Seconds(100);
  Run();
  EXPECT_EQ(Status().unloads_at, loading_.now + absl::Seconds(60)) << "as if the use ended now";
  EndUse(use);
  loading_.now += absl::Seconds(59);
  Run();
  EXPECT_EQ(Status().state, ModelState::kReady);
  EXPECT_EQ(Status().unloads_at, loading_.now + absl::Seconds(1));
  loading_.now += absl::Seconds(1);
  Run();
  EXPECT_EQ(Status().state, ModelState::kUnloaded);
}

TEST_F(IdleTime, CanBeEndedByACall) {
  EXPECT_FALSE(lifecycle_->EndIdleTime("idle")) << "it is not in memory";
  EXPECT_FALSE(lifecycle_->EndIdleTime("kept"));
  EXPECT_FALSE(lifecycle_->EndIdleTime("none"));
  EndUse(Use());
  EXPECT_TRUE(lifecycle_->EndIdleTime("idle"));
  EXPECT_EQ(Status().unloads_at, loading_.now);
  Run();
  EXPECT_EQ(Status().state, ModelState::kUnloaded);
  EXPECT_TRUE(Status().on_request);
  EXPECT_EQ(Status().idle_unloads, 1U);
  EndUse(Use());
  Run();
  EXPECT_EQ(Status().state, ModelState::kReady) << "of the version that was unloaded";
}

TEST_F(IdleTime, EndsOnceNothingUsesTheModel) {
  const uint64_t first = Use();
  EXPECT_TRUE(lifecycle_->EndIdleTime("idle"));
  Run();
  EXPECT_EQ(Status().state, ModelState::kReady);
  EndUse(first);
  Run();
  EXPECT_EQ(Status().state, ModelState::kUnloaded);
}

TEST_F(IdleTime, BeginsAgainWithTheNextUse) {
  const uint64_t first = Use();
  EXPECT_TRUE(lifecycle_->EndIdleTime("idle"));
  const uint64_t second = Use();
  EndUse(first);
  EndUse(second);
  Run();
  EXPECT_EQ(Status().state, ModelState::kReady);
  EXPECT_EQ(Status().unloads_at, loading_.now + absl::Seconds(60));
}

}  // namespace
}  // namespace dunlin::server
