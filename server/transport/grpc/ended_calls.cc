// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/ended_calls.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

class EndedCall final : public Interceptor {
 public:
  EndedCall(std::shared_ptr<GrpcConnection> connection, ServerRpcInfo* info)
      : connection_(std::move(connection)), info_(info) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_CLOSE)) {
      connection_->OnEnded(info_->server_context()->IsCancelled(), MonotonicNs() - begin_);
    }
    batch->Proceed();
  }

 private:
  const std::shared_ptr<GrpcConnection> connection_;
  ServerRpcInfo* const info_;
  const engine::TimeNs begin_ = MonotonicNs();
};

class EndedCalls final : public ServerInterceptorFactoryInterface {
 public:
  explicit EndedCalls(const OpenConnections* connections) : connections_(connections) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    auto connection = connections_->Find(info->server_context()->peer());
    return connection == nullptr ? nullptr : new EndedCall(std::move(connection), info);
  }

 private:
  const OpenConnections* const connections_;
};

}  // namespace

std::unique_ptr<ServerInterceptorFactoryInterface> NewEndedCalls(const OpenConnections* connections) {
  return std::make_unique<EndedCalls>(connections);
}

}  // namespace dunlin::server
