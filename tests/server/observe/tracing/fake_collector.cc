// SPDX-License-Identifier: Apache-2.0
#include "tests/server/observe/tracing/fake_collector.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(20);

}  // namespace

FakeCollector::FakeCollector(int port, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), credentials, &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
}

FakeCollector::~FakeCollector() {
  Hang(false);
  server_->Shutdown(std::chrono::system_clock::now());
}

void FakeCollector::Answer(const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  status_ = status;
}

void FakeCollector::Hang(bool hang) {
  absl::MutexLock lock(&mutex_);
  hang_ = hang;
}

void FakeCollector::Reject(int64_t num_spans) {
  absl::MutexLock lock(&mutex_);
  num_rejected_ = num_spans;
}

std::vector<FakeCollector::Span> FakeCollector::WaitFor(size_t count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return spans_.size() >= count; };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kLongestWait)) << spans_.size() << " spans";
  return spans_;
}

bool FakeCollector::WaitForCalls(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_calls_ >= count; };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), kLongestWait);
}

grpc::Status FakeCollector::Export(grpc::ServerContext* context, const Request* request, Response* response) {
  absl::MutexLock lock(&mutex_);
  ++num_calls_;
  const auto free = [this, context]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !hang_ || context->IsCancelled(); };
  while (!free()) mutex_.AwaitWithTimeout(absl::Condition(&free), absl::Milliseconds(20));
  if (context->IsCancelled()) return grpc::Status::CANCELLED;
  if (!status_.ok()) return status_;
  for (const auto& resource : request->resource_spans()) {
    for (const auto& scope : resource.scope_spans())
      spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
  }
  if (num_rejected_ > 0) response->mutable_partial_success()->set_rejected_spans(num_rejected_);
  return grpc::Status::OK;
}

}  // namespace dunlin::server
