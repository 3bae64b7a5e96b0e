// SPDX-License-Identifier: Apache-2.0
// Requests that wait for an adapter which has left the device's memory: who is handed a lease, in which order, and how
// a wait ends without one. The loader's thread is the test's own.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "server/models/model_lifecycle.h"
#include "tests/engine/adapters/adapter_files.h"

namespace dunlin::server {
namespace {

using engine::AdapterLease;

// Serves the fixture's model, once.
class OneModel final : public ModelLoading {
 public:
  explicit OneModel(std::unique_ptr<ServedModel> model) : model_(std::move(model)) {}

  absl::StatusOr<std::vector<PlannedModel>> PlanStart(const Config& config) override {
    std::vector<PlannedModel> planned(1);
    planned[0].settings = config.models[0];
    planned[0].memory.name = config.models[0].name;
    return planned;
  }
  absl::StatusOr<PlannedModel> PlanAdded(const ModelSettings& /*settings*/,
                                         const std::vector<ModelMemory>& /*residents*/, size_t /*kv_bytes*/) override {
    return absl::UnimplementedError("no other model");
  }
  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const PlannedModel& /*planned*/,
                                                    std::shared_ptr<engine::StepObserver> /*step_observer*/,
                                                    const std::atomic<bool>& /*stop*/) override {
    return std::move(model_);
  }
  absl::Status CheckGolden(const ModelSettings& /*settings*/, const ServedModel& /*model*/,
                           const std::atomic<bool>& /*stop*/) override {
    return absl::OkStatus();
  }
  absl::Time Now() const override { return now; }
  void Sleep(absl::Duration time) override { now += time; }

  absl::Time now = absl::FromUnixSeconds(1000);

 private:
  std::unique_ptr<ServedModel> model_;
};

// A request that names an adapter.
struct Request {
  absl::StatusOr<ModelLifecycle::AdapterUse> use = absl::UnknownError("not begun");
  std::optional<absl::StatusOr<AdapterLease>> outcome;  // of its wait
  AdapterLease lease;

  bool waits() const { return use.ok() && !use->ready && !outcome.has_value(); }
};

class AdapterWaits : public engine::AdapterFiles {
 protected:
  static constexpr int32_t kMaxWaiting = 3;

  // Room for two of three adapters.
  void SetUp() override {
    AdapterFiles::SetUp();
    Write(kConfig, QueryAndValue());
    Config config;
    ModelSettings& settings = config.models.emplace_back();
    settings.name = "base";
    settings.load_wait_ms = 1000;
    settings.engine.max_queued_requests = kMaxWaiting;
    settings.adapters.max_adapters = 2;
    settings.adapters.max_registered = 3;
    for (const char* name : {"a", "b", "c"}) settings.adapters.list.push_back({name, adapter_.path()});
    auto served = std::make_unique<ServedModel>();
    served->name = settings.name;
    auto set = engine::AdapterSet::Create(model_.get(), {.max_adapters = 2, .max_rank = 8, .max_registered = 3});
    ASSERT_TRUE(set.ok()) << set.status();
    served->adapters = *std::move(set);
    loading_ = std::make_unique<OneModel>(std::move(served));
    LifecycleHooks hooks;
    hooks.on_loading = [](const std::string&) { return nullptr; };
    hooks.on_failed = [](const std::string&) {};
    hooks.on_served = [](const ModelSettings&) { return absl::OkStatus(); };
    lifecycle_ = std::make_unique<ModelLifecycle>(&repository_, loading_.get(), hooks, absl::Seconds(1));
    const std::atomic<bool> stop{false};
    const absl::Status loaded = lifecycle_->LoadAll(config, stop);
    ASSERT_TRUE(loaded.ok()) << loaded;
    EXPECT_TRUE(lifecycle_->loads_for_requests());
  }
  void TearDown() override {
    lifecycle_->Stop();
    repository_.Remove("base");
  }

  void Begin(const std::string& adapter, Request* request) {
    request->use = lifecycle_->BeginAdapterUse("base", adapter, absl::InfiniteFuture(),
                                               [request](absl::StatusOr<AdapterLease> lease) {
                                                 if (lease.ok()) request->lease = *lease;
                                                 request->outcome = std::move(lease);
                                               });
    if (request->use.ok()) request->lease = std::exchange(request->use->lease, {});
  }
  void Run() { (void)lifecycle_->RunNext(false); }

  ModelRepository repository_;
  std::unique_ptr<OneModel> loading_;
  std::unique_ptr<ModelLifecycle> lifecycle_;
};

TEST_F(AdapterWaits, OneThatIsInMemoryIsReadyAndOthersComeBack) {
  Request a;
  Begin("a", &a);
  ASSERT_TRUE(a.use.ok()) << a.use.status();
  EXPECT_TRUE(a.use->ready);
  EXPECT_NE(a.lease.adapter, nullptr);
  Request c;
  Begin("c", &c);
  EXPECT_TRUE(c.waits());
  EXPECT_EQ(lifecycle_->Find("base")->waiting, 1U);
  Run();
  ASSERT_TRUE(c.outcome.has_value());
  EXPECT_TRUE(c.outcome->ok()) << c.outcome->status();
  EXPECT_NE(c.lease.adapter, nullptr);
  const std::optional<ModelStatus> status = lifecycle_->Find("base");
  EXPECT_EQ(status->waiting, 0U);
  EXPECT_EQ(status->adapter_moves.evictions, 1U);
  EXPECT_EQ(status->adapter_moves.restores, 1U);
  Request unknown;
  Begin("d", &unknown);
  EXPECT_TRUE(unknown.use->ready) << "who leases it sees that there is none";
  EXPECT_EQ(unknown.lease.id, 0U);
}

TEST_F(AdapterWaits, TheyWaitForRequestsInTheOrderInWhichTheyCame) {
  Request a;
  Request b;
  Begin("a", &a);
  Begin("b", &b);
  Request c;
  Begin("c", &c);
  Run();
  EXPECT_TRUE(c.waits()) << "both have requests";
  Request again;
  Begin("a", &again);
  EXPECT_TRUE(again.waits()) << "a gives way";
  Request other;
  Begin("b", &other);
  EXPECT_TRUE(other.use->ready) << "b does not";
  Request second;
  Begin("c", &second);
  EXPECT_TRUE(second.waits());
  Request fourth;
  Begin("c", &fourth);
  EXPECT_EQ(fourth.use.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(fourth.use.status().message()), testing::HasSubstr("limit is 3 (scheduler.max_queued"));
  a.lease = {};
  Run();
  EXPECT_TRUE(c.outcome.has_value() && c.outcome->ok());
  EXPECT_TRUE(second.outcome.has_value() && second.outcome->ok()) << "of the same adapter";
  EXPECT_TRUE(again.waits());
  c = {};
  second = {};
  Run();
  EXPECT_TRUE(again.outcome.has_value() && again.outcome->ok());
}

TEST_F(AdapterWaits, EndWithTheirTimeTheRequestOrTheServer) {
  Request a;
  Request b;
  Begin("a", &a);
  Begin("b", &b);
  Request late;
  Begin("c", &late);
  Run();
  lifecycle_->EndLateWaits(loading_->now + absl::Milliseconds(999));
  EXPECT_TRUE(late.waits());
  lifecycle_->EndLateWaits(loading_->now + absl::Milliseconds(1000));
  ASSERT_TRUE(late.outcome.has_value());
  EXPECT_EQ(late.outcome->status().code(), absl::StatusCode::kDeadlineExceeded);
  Request gone;
  Begin("c", &gone);
  lifecycle_->EndUse("base", gone.use->id);
  a.lease = {};
  Run();
  EXPECT_FALSE(gone.outcome.has_value());
  Request last;
  Begin("c", &last);
  lifecycle_->Stop();
  ASSERT_TRUE(last.outcome.has_value());
  EXPECT_EQ(last.outcome->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AdapterWaits, FilesThatAreGoneEndTheWaitAndAreTold) {
  adapter_.Write("adapter_config.json", "{");
  Request c;
  Begin("c", &c);
  Run();
  ASSERT_TRUE(c.outcome.has_value());
  EXPECT_EQ(c.outcome->status().code(), absl::StatusCode::kInvalidArgument);
  const std::optional<ModelStatus> status = lifecycle_->Find("base");
  EXPECT_EQ(status->adapter_load_failures, 1U);
  EXPECT_THAT(status->adapters[2].failure, testing::HasSubstr("adapter_config.json"));
}

}  // namespace
}  // namespace dunlin::server
