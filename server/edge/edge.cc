// SPDX-License-Identifier: Apache-2.0
#include "server/edge/edge.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/edge/endpoints.h"
#include "server/edge/observers.h"
#include "server/fronts/table.h"
#include "server/fronts/vllm/kv_event_sources.h"
#include "server/http_calls/route_guard.h"
#include "server/serving/core/text_pool.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/http_server.h"

namespace dunlin::server {

namespace {

// A front that the config enables. Its observer outlives the serving core, its Front does not.
struct EnabledFront {
  const FrontRow* row;
  std::unique_ptr<RequestObserver> observer;  // null: it has none
};

std::vector<EnabledFront> EnabledFronts(const FrontSettings& settings, const ModelRepository& models) {
  std::vector<EnabledFront> enabled;
  for (const FrontRow* row : Fronts()) {
    if (row->enabled_key != nullptr && !settings.Flag(row->enabled_key, true)) continue;
    enabled.push_back({row, row->observe == nullptr ? nullptr : row->observe(models)});
  }
  return enabled;
}

std::vector<RequestObserver*> AllObservers(RequestObserver* own, const std::vector<EnabledFront>& fronts) {
  std::vector<RequestObserver*> observers = {own};
  for (const EnabledFront& front : fronts) observers.push_back(front.observer.get());
  return observers;
}

ServingOptions WithEndpoints(ServingOptions options) {
  options.endpoints = &Endpoints();
  return options;
}

}  // namespace

// Members are constructed in this order and destroyed in reverse.
struct Edge::State final : public RepositoryListener {
  State(const Limits& limits, ModelRepository* served, RequestObserver* observer, const EdgeOptions& options)
      : repository(served),
        enabled(EnabledFronts(options.fronts, *served)),
        observers(AllObservers(observer, enabled)),
        core(limits, *served, &observers, WithEndpoints(options.serving)),
        kv_events(&core) {
    FrontSources sources;
    sources.core = &core;
    sources.settings = options.fronts;
    sources.version = options.version;
    sources.cpu_variant = options.cpu_variant;
    if (options.http.has_value()) sources.unready_reason = options.http->sources.unready_reason;
    sources.shut_down = options.shut_down;
    sources.kv_event_source = [this](const std::string& model) { return kv_events.Of(model); };
    for (const EnabledFront& front : enabled) {
      sources.observer = front.observer.get();
      fronts.push_back(front.row->make(sources));
    }
    repository->Subscribe(this);
  }
  ~State() override { repository->Unsubscribe(this); }

  void OnModelAdded(const ModelLease& /*model*/) override {}
  void OnModelRemoved(const std::string& name) override {
    kv_events.Stop(name);
    for (const std::unique_ptr<Front>& front : fronts) front->OnModelGone(name);
  }

  // What a load balancer hears.
  void SetHealth(bool healthy) {
    grpc.SetServing(healthy);
    for (const std::unique_ptr<Front>& front : fronts) front->SetServing(healthy);
  }

  ModelRepository* const repository;
  const std::vector<EnabledFront> enabled;
  ObserverList observers;
  ServingCore core;
  VllmKvEventSources kv_events;
  std::vector<std::unique_ptr<Front>> fronts;

  absl::Mutex mutex;  // guards what Health is made of
  bool serving ABSL_GUARDED_BY(mutex) = false;
  bool suspended ABSL_GUARDED_BY(mutex) = false;

  Watchdog* watchdog = nullptr;  // null: nobody watches
  bool shut_down = false;
  GrpcServer grpc;
  std::unique_ptr<HttpServer> http;  // null: no HTTP port
};

namespace {

constexpr char kTextPool[] = "text pool";
constexpr char kDelivery[] = "delivery";
constexpr char kGrpc[] = "gRPC";
constexpr char kGrpcConnections[] = "gRPC connections";
constexpr char kHttp[] = "HTTP";
// For clients to take the last statuses; GrpcServer::Shutdown gives them the same.
constexpr std::chrono::milliseconds kHttpGrace{1000};

// Goes through the text pool, so that an idle pool shows that it is alive, too.
class Canary final : public TextTask {
  void Run() override {}
};

std::optional<AdmissionRefusal> RefusalOf(const Watchdog::HealthReport& report) {
  using State = Watchdog::HealthReport::State;
  if (report.state == State::kHealthy) return std::nullopt;
  if (report.state == State::kFailed) return AdmissionRefusal::kDeviceFailed;
  switch (report.part) {
    case Watchdog::Part::kEngine:
      return AdmissionRefusal::kEngineStalled;
    case Watchdog::Part::kTextPool:
      return AdmissionRefusal::kTextPoolStalled;
    case Watchdog::Part::kTransport:
      break;
  }
  return AdmissionRefusal::kTransportStalled;
}

absl::StatusOr<std::unique_ptr<HttpServer>> StartHttp(const EdgeHttpOptions& options, const Limits& limits,
                                                      const CertificateStore* certificates,
                                                      std::vector<HttpRoute> routes, const ServingCore* core) {
  HttpServerOptions http;
  http.certificates = certificates;
  http.connections = options.connections;
  http.routes = std::move(routes);
  if (absl::Status s = GuardRoutes(core->access(), core->endpoints(), &http.routes); !s.ok()) return s;
  http.cors_origins = options.cors_origins;
  http.host_names = options.host_names;
  http.has_keys = [core] { return core->access().enabled(); };
  http.on_response = options.on_response;
  http.timeouts = options.timeouts;
  http.timeouts.write = std::chrono::milliseconds(limits.slow_reader_timeout_ms);
  return HttpServer::Start(options.address, std::move(http));
}

}  // namespace

Edge::Edge() = default;
Edge::~Edge() {
  Shutdown(absl::InfinitePast());
}

absl::StatusOr<int> Edge::Start(const std::string& grpc_address, const Limits& limits, ModelRepository* repository,
                                RequestObserver* observer, const EdgeOptions& options) {
  const int text_threads = options.serving.text_threads;
  if (text_threads < 1 || text_threads > 64) {
    return absl::InvalidArgumentError(absl::StrCat("text_threads is ", text_threads, "; limit is [1, 64]"));
  }
  auto state = std::make_unique<State>(limits, repository, observer, options);
  if (options.http.has_value()) {
    std::vector<HttpRoute> routes = ProbeRoutes(options.http->sources);
    for (const std::unique_ptr<Front>& front : state->fronts) front->AddRoutes(&routes);
    absl::StatusOr<std::unique_ptr<HttpServer>> http =
        StartHttp(*options.http, limits, options.certificates, std::move(routes), &state->core);
    if (!http.ok()) return http.status();
    state->http = *std::move(http);
  }
  std::vector<GrpcService> services;
  for (const std::unique_ptr<Front>& front : state->fronts) front->AddServices(&services);
  GrpcServerOptions grpc;
  grpc.limits = limits;
  grpc.reflection = options.reflection;
  grpc.repository = repository;
  grpc.access = &state->core.access();
  grpc.endpoints = &state->core.endpoints();
  grpc.rpcs = options.rpcs;
  grpc.certificates = options.certificates;
  grpc.on_cut = options.on_cut;
  absl::StatusOr<int> port = state->grpc.Start(grpc_address, services, grpc);
  if (port.ok()) state_ = std::move(state);
  return port;
}

absl::Status Edge::PublishKvEvents(const std::string& model, const EventPublisherOptions& options) {
  return state_->kv_events.Publish(model, options);
}

const std::string& Edge::http_address() const {
  return state_->http->bound_address();
}

void Edge::SetServing(bool serving) {
  if (serving) state_->core.Open();
  absl::MutexLock lock(&state_->mutex);
  state_->serving = serving;
  state_->SetHealth(serving && !state_->suspended);
}

void Edge::WatchWith(Watchdog* watchdog) {
  state_->watchdog = watchdog;
  watchdog->Watch(kTextPool, Watchdog::Part::kTextPool,
                  [pool = state_->core.text_pool(), canary = std::make_shared<Canary>()] {
                    const uint64_t num_run = pool->num_run();
                    pool->Schedule(canary.get());
                    return Watchdog::Progress{num_run, false};
                  });
  watchdog->Watch(kDelivery, Watchdog::Part::kTextPool, [pool = state_->core.text_pool()] {
    return Watchdog::Progress{pool->num_delivery_turns(), false};
  });
  watchdog->Watch(kGrpc, Watchdog::Part::kTransport, [grpc = &state_->grpc] {
    return Watchdog::Progress{grpc->ticks(), false};
  });
  watchdog->Watch(kGrpcConnections, Watchdog::Part::kTransport, [grpc = &state_->grpc] {
    return Watchdog::Progress{grpc->accept_turns(), false};
  });
  if (state_->http == nullptr) return;
  watchdog->Watch(kHttp, Watchdog::Part::kTransport, [http = state_->http.get()] {
    return Watchdog::Progress{http->Ping(), false};
  });
}

void Edge::ApplyHealth(const Watchdog::HealthReport& report) {
  const std::optional<AdmissionRefusal> refusal = RefusalOf(report);
  absl::MutexLock lock(&state_->mutex);
  if (!refusal.has_value() && !state_->suspended) return;
  state_->core.Suspend(refusal);
  state_->suspended = refusal.has_value();
  state_->SetHealth(state_->serving && !state_->suspended);
}

void Edge::StartDraining(AdmissionRefusal why) {
  state_->grpc.StopServing();
  state_->core.StartDraining(why);
  for (const std::unique_ptr<Front>& front : state_->fronts) front->StartDraining();
  if (state_->http != nullptr) state_->http->StartDraining();
}

void Edge::Shutdown(absl::Time deadline) {
  if (state_ == nullptr || std::exchange(state_->shut_down, true)) return;
  StartDraining();
  state_->core.WaitUntilIdle(deadline);
  if (state_->watchdog != nullptr) {
    for (const char* name : {kTextPool, kDelivery, kGrpc, kGrpcConnections, kHttp}) state_->watchdog->Unwatch(name);
  }
  // Needed even when everything is idle: once the engine threads have joined, none of them is inside the text pool.
  state_->repository->StopEngines();
  if (state_->http != nullptr) state_->http->AbortExchangesAfter(kHttpGrace);
  state_->grpc.Shutdown();
  // gRPC and the engines have stopped; the text pool may still be running its last tasks.
  state_->core.WaitUntilIdle(absl::InfiniteFuture());
}

AdmissionStats Edge::admission_stats() const {
  return state_->core.admission_stats();
}

uint64_t Edge::num_connections_cut() const {
  return state_->grpc.num_cut();
}

}  // namespace dunlin::server
