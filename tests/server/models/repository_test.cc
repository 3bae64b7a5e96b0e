// SPDX-License-Identifier: Apache-2.0
// The model repository: what leases keep alive, and what its listeners see while models come and go.
#include "server/models/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/observe/metrics/server_metrics.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RecordingListener : public RepositoryListener {
 public:
  void OnModelAdded(const ModelLease& model) override { events.push_back("+" + model->name); }
  void OnModelRemoved(const std::string& name) override { events.push_back("-" + name); }
  std::vector<std::string> events;
};

class CollectingSink : public engine::OutputSink {
 public:
  bool OnToken(const engine::TokenOutput& token) override {
    absl::MutexLock lock(&mutex_);
    tokens_.push_back(token.token_id);
    return true;
  }
  void OnPromptToken(int32_t, const engine::TokenOutput&) override {}
  void OnFinish(const engine::FinishInfo&) override {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  std::vector<engine::TokenId> Wait() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&finished_), absl::Seconds(10));
    return tokens_;
  }

 private:
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<engine::TokenId> tokens_ ABSL_GUARDED_BY(mutex_);
};

// A sink that keeps its model, as a call does.
class LeasingSink : public CollectingSink {
 public:
  explicit LeasingSink(ModelLease model) : model_(std::move(model)) {}

 private:
  const ModelLease model_;
};

engine::Request FourTokens() {
  engine::Request request;
  request.prompt = {11, 12, 13, 14};
  request.profile.precision = engine::Precision::kFp32;
  request.stopping.max_tokens = 4;
  return request;
}

std::vector<std::string> Names(const ModelRepository& repository) {
  std::vector<std::string> names;
  for (const ModelLease& model : repository.List()) names.push_back(model->name);
  return names;
}

// grpc.health.v1's status of a name; SERVICE_UNKNOWN when Check says NOT_FOUND.
HealthCheckResponse::ServingStatus HealthOf(const EdgeServer& edge, const std::string& name) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service(name);
  HealthCheckResponse response;
  const grpc::Status status = Health::NewStub(edge.channel())->Check(&context, request, &response);
  return status.ok() ? response.status() : HealthCheckResponse::SERVICE_UNKNOWN;
}

TEST(ModelRepository, ListsInOrderAndLeasesByName) {
  EdgeServer edge;
  EXPECT_THAT(Names(edge.repository()), ElementsAre("tiny", "bare", "encoder"));
  EXPECT_EQ(edge.repository().Lease("bare")->name, "bare");
  EXPECT_EQ(edge.repository().Lease("no such model"), nullptr);
}

TEST(ModelRepository, RefusesASecondModelOfTheSameName) {
  EdgeServer edge;
  auto second = std::make_unique<ServedModel>();
  second->name = "tiny";
  EXPECT_TRUE(absl::IsAlreadyExists(edge.repository().Add(std::move(second))));
  EXPECT_EQ(Names(edge.repository()).size(), 3U);
}

TEST(ModelRepository, ARemovedModelIsUnknownWhileAHeldLeaseStillGenerates) {
  EdgeServer edge;
  ModelLease held = edge.repository().Lease("tiny");
  EXPECT_TRUE(edge.repository().Remove("tiny"));
  EXPECT_FALSE(edge.repository().Remove("tiny"));
  EXPECT_EQ(edge.Generate(TextRequest("hello", 4)).status.error_code(), grpc::StatusCode::NOT_FOUND);

  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(held->engine->Submit(FourTokens(), sink).ok());
  EXPECT_THAT(sink->Wait(), ElementsAre(11, 12, 13, 14));

  EXPECT_EQ(edge.repository().FreeUnleased(), 0);
  held.reset();
  EXPECT_EQ(edge.repository().FreeUnleased(), 1);
}

TEST(ModelRepository, ACallInFlightCompletesAfterItsModelWasRemoved) {
  EdgeServer edge;
  edge.control().held = true;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stub = edge.stub();
  const auto reader = stub->Generate(&context, TextRequest("hello", 4));
  EXPECT_TRUE(Eventually([&] { return !edge.model("tiny").engine->stats().idle; }));
  EXPECT_TRUE(edge.repository().Remove("tiny"));
  EXPECT_EQ(edge.repository().FreeUnleased(), 0) << "the call leases the model";
  edge.control().held = false;
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs[0].token_ids.size(), 4U);
  EXPECT_TRUE(Eventually([&] { return edge.repository().FreeUnleased() == 1; }));
}

TEST(ModelRepository, TheLastLeaseMayBeDroppedOnTheEngineThread) {
  EdgeServer edge;
  edge.control().held = true;
  {
    const ModelLease model = edge.repository().Lease("bare");
    ASSERT_TRUE(model->engine->Submit(FourTokens(), std::make_shared<LeasingSink>(model)).ok());
  }
  EXPECT_TRUE(edge.repository().Remove("bare"));
  edge.control().held = false;
  EXPECT_TRUE(Eventually([&] { return edge.repository().FreeUnleased() == 1; }));
}

TEST(ModelRepository, StopsTheEnginesOfRemovedModelsThatAreStillLeased) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  const ModelLease held = edge.repository().Lease("bare");
  auto sink = std::make_shared<CollectingSink>();
  engine::Request request = FourTokens();
  request.stopping.max_tokens = kTinyContext - 4;
  ASSERT_TRUE(held->engine->Submit(request, sink).ok());
  EXPECT_TRUE(edge.repository().Remove("bare"));
  edge.repository().StopEngines();
  EXPECT_LT(sink->Wait().size(), static_cast<size_t>(kTinyContext - 4));
}

TEST(ModelRepository, AListenerSeesCurrentModelsAndEveryChangeUntilItUnsubscribes) {
  EdgeServer edge;
  RecordingListener listener;
  edge.repository().Subscribe(&listener);
  edge.repository().Remove("bare");
  EXPECT_THAT(listener.events, ElementsAre("+tiny", "+bare", "+encoder", "-bare"));
  edge.repository().Unsubscribe(&listener);
  edge.repository().Remove("tiny");
  EXPECT_THAT(listener.events, ElementsAre("+tiny", "+bare", "+encoder", "-bare", "-tiny", "-encoder"));
}

TEST(ModelRepository, AReplacedModelIsLeasedAtItsPlaceAndTheEarlierOneLivesByItsLease) {
  EdgeServer edge;
  RecordingListener listener;
  edge.repository().Subscribe(&listener);
  listener.events.clear();
  ModelLease held = edge.repository().Lease("tiny");
  edge.repository().Replace(edge.models().NewTiny());
  EXPECT_THAT(listener.events, ElementsAre("-tiny", "+tiny"));
  EXPECT_THAT(Names(edge.repository()), ElementsAre("tiny", "bare", "encoder"));
  EXPECT_NE(edge.repository().Lease("tiny"), held);
  EXPECT_EQ(HealthOf(edge, "model/tiny"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(edge.Generate(TextRequest("hello", 4)).status.ok());

  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(held->engine->Submit(FourTokens(), sink).ok());
  EXPECT_THAT(sink->Wait(), ElementsAre(11, 12, 13, 14));
  EXPECT_EQ(edge.repository().FreeUnleased(), 0);
  held.reset();
  EXPECT_EQ(edge.repository().FreeUnleased(), 1);
  edge.repository().Unsubscribe(&listener);
}

TEST(ModelRepository, SeriesOfAModelComeAndGoWithIt) {
  ServerMetrics metrics;
  EdgeServer edge;
  edge.repository().Subscribe(&metrics);
  EXPECT_THAT(metrics.Render(), HasSubstr("dunlin_kv_pages_total{model_name=\"tiny\"} 4096\n"));
  EXPECT_THAT(metrics.Render(), HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 0\n"));
  RequestRecord served;
  served.model = "tiny";
  served.first_scheduled = served.arrival + 1;
  metrics.OnFinished(served);
  edge.repository().Replace(edge.models().NewTiny());
  EXPECT_THAT(metrics.Render(), HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 1\n"));
  EXPECT_EQ(edge.repository().FreeUnleased(), 1) << "metrics keep no lease on a replaced model";
  edge.repository().Remove("tiny");
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("model_name=\"tiny\"")));
  EXPECT_THAT(metrics.Render(), HasSubstr("dunlin_kv_pages_total{model_name=\"bare\"} 4096\n"));
  EXPECT_EQ(edge.repository().FreeUnleased(), 1) << "metrics keep no lease on a removed model";
  edge.repository().Unsubscribe(&metrics);
}

TEST(ModelRepository, HealthFollowsEveryModel) {
  EdgeServer edge;
  EXPECT_EQ(HealthOf(edge, "model/tiny"), HealthCheckResponse::SERVING);
  edge.server().SetServing(false);
  EXPECT_EQ(HealthOf(edge, "model/tiny"), HealthCheckResponse::NOT_SERVING);
  edge.repository().Remove("tiny");
  EXPECT_EQ(HealthOf(edge, "model/tiny"), HealthCheckResponse::SERVICE_UNKNOWN);
}

}  // namespace
}  // namespace dunlin::server
