// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/access/listen_address.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/call_counter.h"
#include "server/transport/grpc/connection_acceptor.h"
#include "server/transport/grpc/ended_calls.h"
#include "server/transport/grpc/health_service.h"
#include "server/transport/grpc/idle_ticker.h"
#include "server/transport/grpc/listen_options.h"
#include "server/transport/grpc/open_connections.h"
#include "server/transport/grpc/reflection_service.h"
#include "server/transport/grpc/tls_credentials.h"

namespace dunlin::server {
namespace {

// Of max_metadata_bytes, which gRPC counts unpacked and without continuations: room for names, paths and padding.
constexpr int64_t kHeaderBlocks = 8;
constexpr auto kCloseGrace = std::chrono::seconds(1);  // for statuses still being sent

std::vector<std::string> ServiceNames(const std::vector<GrpcService>& services, bool reflection) {
  std::vector<std::string> names;
  names.reserve(services.size() + 3);
  for (const GrpcService& service : services) names.push_back(service.name);
  names.emplace_back(grpc::health::v1::Health::service_full_name());
  if (reflection) {
    names.emplace_back(ReflectionV1::Service::service_full_name());
    names.emplace_back(ReflectionV1Alpha::Service::service_full_name());
  }
  return names;
}

// observer: may be null.
void WatchCalls(RpcObserver* observer, const std::vector<std::string>& services, const OpenConnections* connections,
                grpc::ServerBuilder* builder) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(NewEndedCalls(connections));
  if (observer != nullptr) interceptors.push_back(NewCallCounter(observer, services));
  builder->experimental().SetInterceptorCreators(std::move(interceptors));
}

}  // namespace

struct GrpcServer::State {
  State(const std::vector<std::string>& names, const GrpcServerOptions& options)
      : repository(options.repository),
        access(options.access == nullptr ? &no_keys : options.access),
        endpoints(options.endpoints == nullptr ? &no_endpoints : options.endpoints),
        shared(std::make_shared<ConnectionShared>(
            CallBudgetLimits{options.limits.max_streams_per_connection, options.limits.max_abandoned_calls_per_second},
            static_cast<size_t>(kHeaderBlocks * options.limits.max_metadata_bytes))),
        connections({options.limits.max_connections, options.limits.max_connections_per_address}, shared),
        health(names, access, endpoints),
        reflection_v1(names, access, endpoints),
        reflection_v1alpha(names, access, endpoints) {}

  ModelRepository* const repository;
  const AccessControl no_keys;
  const AccessControl* const access;
  const EndpointTable no_endpoints;
  const EndpointTable* const endpoints;
  const std::shared_ptr<ConnectionShared> shared;
  OpenConnections connections;
  HealthService health;
  ReflectionService<ReflectionV1> reflection_v1;
  ReflectionService<ReflectionV1Alpha> reflection_v1alpha;
  std::atomic<uint64_t> ticks{0};
  std::shared_ptr<grpc::ServerCredentials> credentials;  // until the server is gone
  std::unique_ptr<ConnectionAcceptor>
      acceptor;                             // null for a Unix socket, on which gRPC listens itself, and once shut down
  std::unique_ptr<grpc::Server> server;     // null once shut down
  std::unique_ptr<IdleTicker> idle_ticker;  // while the server is up
};

GrpcServer::GrpcServer() = default;
GrpcServer::~GrpcServer() {
  Shutdown();
}

absl::StatusOr<int> GrpcServer::Start(const std::string& address, const std::vector<GrpcService>& services,
                                      const GrpcServerOptions& options) {
  grpc::EnableDefaultHealthCheckService(false);
  // protobuf writes a line to stderr for every string that is not UTF-8; clients cause these and get an error anyway.
  google::protobuf::SetLogHandler(nullptr);

  const bool reflection = options.reflection.value_or(IsLoopback(address));
  const std::vector<std::string> names = ServiceNames(services, reflection);
  if (options.endpoints != nullptr) {
    if (absl::Status listed = CheckEndpointsListed(names, *options.endpoints); !listed.ok()) return listed;
  }
  auto state = std::make_unique<State>(names, options);
  state->shared->on_cut = options.on_cut;
  grpc::ServerBuilder builder;
  WatchCalls(options.rpcs, names, &state->connections, &builder);
  ApplyLimits(options.limits, &builder);
  int port = 0;
  state->credentials =
      options.certificates == nullptr ? grpc::InsecureServerCredentials() : TlsCredentials(options.certificates);
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  if (IsUnixSocket(address)) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  } else {
    const Limits& limits = options.limits;
    // Not before a slow reader is told so.
    const int32_t user_timeout_ms = std::max(limits.keepalive_timeout_ms, limits.slow_reader_timeout_ms);
    auto acceptor =
        ConnectionAcceptor::Listen(address, &state->connections, static_cast<unsigned int>(user_timeout_ms));
    if (!acceptor.ok()) return acceptor.status();
    port = (*acceptor)->port();
    state->acceptor = *std::move(acceptor);
    connections = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, state->credentials);
  }
  builder.RegisterService(&state->health);
  for (const GrpcService& service : services) builder.RegisterService(service.service);
  if (reflection) {
    builder.RegisterService(&state->reflection_v1);
    builder.RegisterService(&state->reflection_v1alpha);
  }
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) return absl::UnavailableError(absl::StrCat("listen.grpc: cannot listen on ", address));
  if (state->acceptor != nullptr) state->acceptor->Serve(std::move(connections));
  state->idle_ticker =
      std::make_unique<IdleTicker>(state->server->InProcessChannel(grpc::ChannelArguments()),
                                   [ticks = &state->ticks] { ticks->fetch_add(1, std::memory_order_relaxed); });
  options.repository->Subscribe(&state->health);
  state_ = std::move(state);
  return port;
}

void GrpcServer::SetServing(bool serving) {
  state_->health.SetServing(serving);
}

void GrpcServer::StopServing() {
  state_->health.StopServing();
}

uint64_t GrpcServer::num_cut() const {
  return state_->shared->num_cut.load(std::memory_order_relaxed);
}

uint64_t GrpcServer::ticks() const {
  return state_->ticks.load(std::memory_order_relaxed);
}

uint64_t GrpcServer::accept_turns() const {
  return state_->acceptor == nullptr ? ticks() : state_->acceptor->turns();
}

void GrpcServer::Shutdown() {
  if (state_ == nullptr || state_->server == nullptr) return;
  state_->idle_ticker.reset();
  state_->acceptor.reset();
  state_->health.Shutdown();
  state_->server->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  state_->server->Wait();
  state_->repository->Unsubscribe(&state_->health);
  state_->server.reset();
}

}  // namespace dunlin::server
