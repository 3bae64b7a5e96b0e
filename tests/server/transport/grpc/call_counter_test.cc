// SPDX-License-Identifier: Apache-2.0
// What the gRPC port reports of its calls: served, refused, cancelled and unknown ones, health's and reflection's; and
// that its own ticks are none.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using absl::StatusCode;

constexpr char kGenerate[] = "dunlin.v1.GenerationService/Generate";
constexpr char kGetModel[] = "dunlin.v1.ModelService/GetModel";
constexpr char kCheck[] = "grpc.health.v1.Health/Check";

class RecordedRpcs final : public RpcObserver {
 public:
  struct Calls {
    int num_started = 0;
    std::vector<RpcEnd> ends;
  };

  RpcMethodObserver* ForMethod(const std::string& name) override {
    std::unique_ptr<Method>& method = methods_[name];
    if (method == nullptr) method = std::make_unique<Method>();
    return method.get();
  }
  // What has been seen once `count` calls of the method have ended, 20 s later at most.
  Calls WaitFor(const std::string& name, size_t count) { return methods_.at(name)->WaitFor(count); }
  bool Has(const std::string& name) const { return methods_.count(name) != 0; }

 private:
  class Method final : public RpcMethodObserver {
   public:
    void OnStarted() override {
      absl::MutexLock lock(&mutex_);
      ++calls_.num_started;
    }
    void OnEnded(const RpcEnd& end) override {
      absl::MutexLock lock(&mutex_);
      calls_.ends.push_back(end);
    }
    Calls WaitFor(size_t count) {
      absl::MutexLock lock(&mutex_);
      const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_.ends.size() >= count; };
      mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
      return calls_;
    }

   private:
    absl::Mutex mutex_;  // guards calls_
    Calls calls_ ABSL_GUARDED_BY(mutex_);
  };

  std::map<std::string, std::unique_ptr<Method>> methods_;  // const once the server has started
};

struct CountedEdge {
  explicit CountedEdge(EdgeServerOptions options = {}) {
    options.server.rpcs = &rpcs;
    edge = std::make_unique<EdgeServer>(options);
  }
  // The end of the only call of this method.
  RpcEnd Only(const std::string& method) {
    const RecordedRpcs::Calls calls = rpcs.WaitFor(method, 1);
    EXPECT_EQ(calls.num_started, 1);
    EXPECT_EQ(calls.ends.size(), 1U);
    return calls.ends.empty() ? RpcEnd() : calls.ends.front();
  }

  RecordedRpcs rpcs;
  std::unique_ptr<EdgeServer> edge;
};

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
}

TEST(CallCounter, CountsBytesAndTimeOfAStream) {
  CountedEdge counted;
  const v1::GenerateRequest request = TextRequest("abc", 20);
  const absl::Time begin = absl::Now();
  const Reply reply = counted.edge->Generate(request);
  ASSERT_TRUE(reply.status.ok());
  const RpcEnd end = counted.Only(kGenerate);
  size_t sent = 0;
  for (const v1::GenerateResponse& message : reply.messages) sent += message.ByteSizeLong();
  EXPECT_EQ(end.status, StatusCode::kOk);
  EXPECT_EQ(end.received_bytes, request.ByteSizeLong());
  EXPECT_EQ(end.sent_bytes, sent);
  EXPECT_GT(end.duration, 0);
  EXPECT_LT(end.duration, absl::ToInt64Nanoseconds(absl::Now() - begin) + 5'000'000);
}

TEST(CallCounter, CountsCallsThatAreRefused) {
  EdgeServerOptions options;
  options.serving = false;
  CountedEdge counted(options);
  EXPECT_EQ(counted.edge->Generate(TextRequest("abc", 1)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const RpcEnd end = counted.Only(kGenerate);
  EXPECT_EQ(end.status, StatusCode::kUnavailable);
  EXPECT_EQ(end.sent_bytes, 0U);
}

TEST(CallCounter, CountsCallsThatTheClientCancels) {
  CountedEdge counted;
  counted.edge->control().held = true;
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stub = counted.edge->stub();
  const auto reader = stub->Generate(&context, TextRequest("abc", 100));
  ASSERT_TRUE(Eventually([&] { return counted.edge->server().admission_stats().requests == 1; }));
  context.TryCancel();
  reader->Finish();
  EXPECT_EQ(counted.Only(kGenerate).status, StatusCode::kCancelled);
  counted.edge->control().held = false;
}

TEST(CallCounter, CountsUnaryCalls) {
  CountedEdge counted;
  v1::GetModelRequest request;
  request.set_name("tiny");
  v1::GetModelResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  ASSERT_TRUE(v1::ModelService::NewStub(counted.edge->channel())->GetModel(&context, request, &response).ok());
  const RpcEnd end = counted.Only(kGetModel);
  EXPECT_EQ(end.status, StatusCode::kOk);
  EXPECT_EQ(end.received_bytes, request.ByteSizeLong());
  EXPECT_EQ(end.sent_bytes, response.ByteSizeLong());
}

TEST(CallCounter, CountsUnknownMethodsTogether) {
  CountedEdge counted;
  for (const char* method : {"/dunlin.v1.GenerationService/Guess", "/made.Up/Name", "/x"}) {
    grpc::GenericStub stub(counted.edge->channel());
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    absl::Mutex mutex;
    bool done = false;
    grpc::Status status;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response, [&](grpc::Status ended) {
      absl::MutexLock lock(&mutex);
      status = std::move(ended);
      done = true;
    });
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&done));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  const RecordedRpcs::Calls calls = counted.rpcs.WaitFor("other", 3);
  ASSERT_EQ(calls.ends.size(), 3U);
  for (const RpcEnd& end : calls.ends) EXPECT_EQ(end.status, StatusCode::kUnimplemented);
  EXPECT_FALSE(counted.rpcs.Has("made.Up/Name"));
}

TEST(CallCounter, CountsHealthAndReflectionAndNotItsOwnTicks) {
  CountedEdge counted;
  absl::SleepFor(absl::Seconds(1));  // two ticks
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("dunlin.v1.ModelService");
  grpc::health::v1::HealthCheckResponse response;
  grpc::ClientContext context;
  SetDeadline(&context);
  ASSERT_TRUE(grpc::health::v1::Health::NewStub(counted.edge->channel())->Check(&context, request, &response).ok());
  const RpcEnd end = counted.Only(kCheck);
  EXPECT_EQ(end.received_bytes, request.ByteSizeLong());
  EXPECT_EQ(end.sent_bytes, response.ByteSizeLong());

  grpc::ClientContext stream_context;
  SetDeadline(&stream_context);
  const auto stub = grpc::reflection::v1::ServerReflection::NewStub(counted.edge->channel());
  const auto stream = stub->ServerReflectionInfo(&stream_context);
  grpc::reflection::v1::ServerReflectionRequest list;
  list.set_list_services("");
  grpc::reflection::v1::ServerReflectionResponse names;
  uint64_t received = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(list) && stream->Read(&names));
    received += names.ByteSizeLong();
  }
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  const RpcEnd reflected = counted.Only("grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
  EXPECT_EQ(reflected.received_bytes, 2 * list.ByteSizeLong());
  EXPECT_EQ(reflected.sent_bytes, received);
}

}  // namespace
}  // namespace dunlin::server
