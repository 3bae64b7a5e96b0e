// SPDX-License-Identifier: Apache-2.0
// A refused call is reported once, with its reason; those for lack of capacity, and no others, count as overload.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/serving/record/errors.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::SizeIs;

struct Refusal {
  const char* reason;
  bool overload;                                // for lack of capacity
  std::function<void(ServingCore*)> core;       // what makes the core refuse, if anything
  std::function<void(ClientRequest*)> request;  // what is wrong with the request, if anything
  int running;                                  // calls in flight before it
  std::function<void(Limits*)> limits;          // from the defaults
  std::function<void(engine::EngineOptions*)> engine;
};

void ExpectOneReport(const Refusal& row) {
  SCOPED_TRACE(row.reason);
  Limits limits;
  if (row.limits) row.limits(&limits);
  engine::EngineOptions options;
  if (row.engine) row.engine(&options);
  RecordingObserver observer;
  TestModels models(options);
  ServingCore core(limits, models.repository(), &observer, {});
  core.Open();
  models.control().held = true;
  std::vector<std::shared_ptr<FakeGenerateCall>> running;
  for (int i = 0; i < row.running; ++i) {
    running.push_back(std::make_shared<FakeGenerateCall>(ClientTextRequest("abc", 4)));
    FakeGenerateCall::Start(&core, running.back());
    EXPECT_TRUE(Eventually([&] { return !models.model("tiny").engine->stats().idle; }));
  }
  if (row.core) row.core(&core);

  ClientRequest request = ClientTextRequest("abc", 4);
  if (row.request) row.request(&request);
  const auto call = std::make_shared<FakeGenerateCall>(request);
  FakeGenerateCall::Start(&core, call);
  const FakeResponse response = call->WaitUntilFinished();
  EXPECT_EQ(ReasonName(response.status), row.reason);
  EXPECT_EQ(core.overload()->recent(core.now()), row.overload);
  models.control().held = false;
  for (const auto& other : running) EXPECT_TRUE(other->WaitUntilFinished().status.ok());
  core.StartDraining(AdmissionRefusal::kDraining);
  EXPECT_TRUE(core.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
  models.repository().StopEngines();

  const std::vector<RequestRecord> records = observer.WaitFor(running.size() + 1);
  EXPECT_THAT(records, SizeIs(running.size() + 1)) << "one report of every call";
  int refused = 0;
  for (const RequestRecord& record : records) {
    if (record.refusal_reason.empty()) continue;
    ++refused;
    EXPECT_EQ(record.refusal_reason, row.reason);
    EXPECT_EQ(record.status, response.status);
  }
  EXPECT_EQ(refused, 1);
}

TEST(Refusals, AreReportedOnceWithTheirReason) {
  const Refusal rows[] = {
      {"TOO_MANY_REQUESTS", true, {}, {}, 1, [](Limits* l) { l->max_concurrent_requests = 1; }, {}},
      {"TOO_MANY_QUEUED_BYTES", true, {}, {}, 0, [](Limits* l) { l->max_queued_bytes = 10; }, {}},
      {"DRAINING", false, [](ServingCore* core) { core->StartDraining(AdmissionRefusal::kDraining); }, {}, 0, {}, {}},
      {"UNKNOWN_MODEL", false, {}, [](ClientRequest* r) { r->model = "nobody"; }, 0, {}, {}},
      {"WRONG_MODEL_KIND", false, {}, [](ClientRequest* r) { r->model = "encoder"; }, 0, {}, {}},
      {"INVALID_FIELD", false, {}, [](ClientRequest* r) { r->sampling.top_p = 1.5F; }, 0, {}, {}},
      {"PROFILE_UNSUPPORTED",
       false,
       {},
       [](ClientRequest* r) { r->execution.precision = engine::Precision::kFp8; },
       0,
       {},
       {}},
  };
  for (const Refusal& row : rows) ExpectOneReport(row);
}

TEST(Refusals, ByAFullQueueOfTheEngineCountAsOverload) {
  engine::EngineOptions options;
  options.max_sequences = 1;
  options.max_queued_requests = 2;
  RecordingObserver observer;
  TestModels models(options);
  ServingCore core({}, models.repository(), &observer, {});
  core.Open();
  models.control().held = true;
  ClientRequest request = ClientTextRequest("abc", 4);
  request.num_outputs = 8;
  const auto call = std::make_shared<FakeGenerateCall>(request);
  FakeGenerateCall::Start(&core, call);
  EXPECT_EQ(ReasonName(call->WaitUntilFinished().status), "QUEUE_FULL");
  EXPECT_TRUE(core.overload()->recent(core.now()));
  models.control().held = false;
  core.StartDraining(AdmissionRefusal::kDraining);
  EXPECT_TRUE(core.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
  models.repository().StopEngines();
  EXPECT_THAT(observer.WaitFor(1), SizeIs(1));
}

}  // namespace
}  // namespace dunlin::server
