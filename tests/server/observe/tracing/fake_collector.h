// SPDX-License-Identifier: Apache-2.0
// A collector on a loopback port: keeps the spans that it is sent. May hang, refuse, or be away.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace dunlin::server {

class FakeCollector final : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;

 public:
  using Span = opentelemetry::proto::trace::v1::Span;

  // port: 0 picks a free one.
  explicit FakeCollector(
      int port = 0, const std::shared_ptr<grpc::ServerCredentials>& credentials = grpc::InsecureServerCredentials());
  ~FakeCollector() override;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // What later calls get: a status, or nothing until the caller gives up.
  void Answer(const grpc::Status& status);
  void Hang(bool hang);
  void Reject(int64_t num_spans);
  // Waits until `count` spans have come, 20 s at most; what has come so far, in order.
  std::vector<Span> WaitFor(size_t count);
  bool WaitForCalls(int count);

 private:
  grpc::Status Export(grpc::ServerContext* context, const Request* request, Response* response) override;

  absl::Mutex mutex_;  // guards what follows
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  bool hang_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dunlin::server
