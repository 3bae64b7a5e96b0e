// SPDX-License-Identifier: Apache-2.0
#include "server/edge/edge.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/fronts/dunlin_v1/embedding_service.h"
#include "server/fronts/dunlin_v1/generation_service.h"
#include "server/fronts/dunlin_v1/model_service.h"
#include "server/fronts/dunlin_v1/tokenizer_service.h"
#include "server/fronts/kserve/inference_service.h"
#include "server/fronts/kserve/kserve_routes.h"
#include "server/fronts/kserve/model_statistics.h"
#include "server/fronts/openai/openai_routes.h"
#include "server/fronts/smg_worker/vllm_engine_service.h"
#include "server/fronts/vllm/control_service.h"
#include "server/fronts/vllm/inference_service.h"
#include "server/fronts/vllm/kv_event_sources.h"
#include "server/http_calls/route_guard.h"
#include "server/serving/core/text_pool.h"
#include "server/serving/record/observers.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/http_server.h"

namespace dunlin::server {

// Members are constructed in this order and destroyed in reverse.
struct Edge::State {
  State(const Limits& limits, ModelRepository* served, RequestObserver* observer, const EdgeOptions& options)
      : repository(served),
        kserve_statistics(*served),
        observers({observer, options.kserve ? &kserve_statistics : nullptr}),
        core(limits, *served, &observers, options.serving),
        open_inference(&core, &kserve_statistics, options.version),
        generation(&core),
        embedding(&core),
        models(&core),
        tokenizer(&core),
        kv_events(&core) {
    if (options.vllm_engine) vllm_engine = std::make_unique<VllmEngineService>(&core, options.vllm_engine_model);
  }

  // What a load balancer hears.
  void SetHealth(bool healthy) {
    grpc.SetServing(healthy);
    if (vllm_engine != nullptr) vllm_engine->SetServing(healthy);
  }

  ModelRepository* const repository;
  kserve::ModelStatistics kserve_statistics;
  ObserverList observers;
  ServingCore core;
  kserve::InferenceService open_inference;
  GenerationService generation;
  EmbeddingService embedding;
  ModelService models;
  TokenizerService tokenizer;
  std::unique_ptr<VllmEngineService> vllm_engine;  // null: not served
  VllmKvEventSources kv_events;
  std::optional<VllmInferenceService> vllm_inference;  // unset, as the next: vLLM's API is not served
  std::optional<VllmControlService> vllm_control;

  absl::Mutex mutex;  // guards what Health is made of
  bool serving ABSL_GUARDED_BY(mutex) = false;
  bool suspended ABSL_GUARDED_BY(mutex) = false;

  Heartbeat* heartbeat = nullptr;  // null: nobody watches
  bool shut_down = false;
  GrpcServer grpc;
  std::unique_ptr<HttpServer> http;  // null: no HTTP port
};

namespace {

constexpr char kTextPool[] = "text pool";
constexpr char kGrpc[] = "gRPC";
constexpr char kHttp[] = "HTTP";
// For clients to take the last statuses; GrpcServer::Shutdown gives them the same.
constexpr std::chrono::milliseconds kHttpGrace{1000};

// Goes through the text pool, so that an idle pool shows that it is alive, too.
class Canary final : public TextTask {
  void Run() override {}
};

std::optional<AdmissionRefusal> RefusalOf(const Heartbeat::Finding& finding) {
  using State = Heartbeat::Finding::State;
  if (finding.state == State::kHealthy) return std::nullopt;
  if (finding.state == State::kFailed) return AdmissionRefusal::kDeviceFailed;
  switch (finding.part) {
    case Heartbeat::Part::kEngine:
      return AdmissionRefusal::kEngineStalled;
    case Heartbeat::Part::kTextPool:
      return AdmissionRefusal::kTextPoolStalled;
    case Heartbeat::Part::kTransport:
      break;
  }
  return AdmissionRefusal::kTransportStalled;
}

std::vector<HttpRoute> HttpRoutes(const EdgeHttpOptions& options, std::vector<HttpRoute> kserve_routes,
                                  ServingCore* core) {
  std::vector<HttpRoute> routes = ProbeRoutes(options.sources);
  std::move(kserve_routes.begin(), kserve_routes.end(), std::back_inserter(routes));
  if (!options.openai) return routes;
  const OpenAiSources sources = {options.sources.unready_reason, options.version, options.cpu_variant, options.strict};
  std::vector<HttpRoute> openai = OpenAiRoutes(core, sources);
  std::move(openai.begin(), openai.end(), std::back_inserter(routes));
  return routes;
}

absl::StatusOr<std::unique_ptr<HttpServer>> StartHttp(const EdgeHttpOptions& options, const Limits& limits,
                                                      const CertificateStore* certificates,
                                                      std::vector<HttpRoute> kserve_routes, ServingCore* core) {
  HttpServerOptions http;
  http.certificates = certificates;
  http.connections = options.connections;
  http.routes = HttpRoutes(options, std::move(kserve_routes), core);
  if (absl::Status listed = GuardRoutes(core->access(), &http.routes); !listed.ok()) return listed;
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
    std::vector<HttpRoute> kserve_routes;
    if (options.kserve) {
      kserve_routes = kserve::KserveRoutes(&state->core, &state->kserve_statistics, options.version);
    }
    absl::StatusOr<std::unique_ptr<HttpServer>> http =
        StartHttp(*options.http, limits, options.certificates, std::move(kserve_routes), &state->core);
    if (!http.ok()) return http.status();
    state->http = *std::move(http);
  }
  std::vector<GrpcService> services = {
      {&state->generation, v1::GenerationService::service_full_name()},
      {&state->embedding, v1::EmbeddingService::service_full_name()},
      {&state->models, v1::ModelService::service_full_name()},
      {&state->tokenizer, v1::TokenizerService::service_full_name()},
  };
  if (options.kserve) {
    services.push_back({&state->open_inference, inference::GRPCInferenceService::service_full_name()});
  }
  if (state->vllm_engine != nullptr) {
    services.push_back({state->vllm_engine.get(), ::vllm::grpc::engine::VllmEngine::service_full_name()});
  }
  if (options.vllm.enabled) AddVllm(options.vllm, state.get(), &services);
  const GrpcServerOptions grpc = {limits,       options.reflection,   repository,    &state->core.access(),
                                  options.rpcs, options.certificates, options.on_cut};
  absl::StatusOr<int> port = state->grpc.Start(grpc_address, services, grpc);
  if (port.ok()) state_ = std::move(state);
  return port;
}

void Edge::AddVllm(const EdgeVllmOptions& options, State* state, std::vector<GrpcService>* services) {
  state->vllm_inference.emplace(&state->core);
  VllmControlSources sources;
  sources.abort = [running = state->vllm_inference->running()](const std::string& request_id, const Principal& caller) {
    running->Cancel(request_id, caller);
  };
  sources.version = options.version;
  sources.shut_down = options.shut_down;
  sources.kv_event_source = [state](const std::string& model) { return state->kv_events.Of(model); };
  state->vllm_control.emplace(&state->core, std::move(sources));
  services->push_back({&*state->vllm_inference, ::vllm::Inference::service_full_name()});
  services->push_back({&*state->vllm_control, ::vllm::Control::service_full_name()});
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

void Edge::WatchWith(Heartbeat* heartbeat) {
  state_->heartbeat = heartbeat;
  heartbeat->Watch(kTextPool, Heartbeat::Part::kTextPool,
                   [pool = state_->core.text_pool(), canary = std::make_shared<Canary>()] {
                     const uint64_t num_run = pool->num_run();
                     pool->Schedule(canary.get());
                     return Heartbeat::Pulse{num_run, false};
                   });
  heartbeat->Watch(kGrpc, Heartbeat::Part::kTransport, [grpc = &state_->grpc] {
    return Heartbeat::Pulse{grpc->ticks(), false};
  });
  if (state_->http == nullptr) return;
  heartbeat->Watch(kHttp, Heartbeat::Part::kTransport, [http = state_->http.get()] {
    return Heartbeat::Pulse{http->Ping(), false};
  });
}

void Edge::Follow(const Heartbeat::Finding& finding) {
  const std::optional<AdmissionRefusal> refusal = RefusalOf(finding);
  absl::MutexLock lock(&state_->mutex);
  if (!refusal.has_value() && !state_->suspended) return;
  state_->core.Suspend(refusal);
  state_->suspended = refusal.has_value();
  state_->SetHealth(state_->serving && !state_->suspended);
}

void Edge::StartDraining(AdmissionRefusal why) {
  state_->grpc.StopServing();
  state_->core.StartDraining(why);
  if (state_->vllm_engine != nullptr) state_->vllm_engine->StartDraining();
  if (state_->http != nullptr) state_->http->StartDraining();
}

void Edge::Shutdown(absl::Time deadline) {
  if (state_ == nullptr || std::exchange(state_->shut_down, true)) return;
  StartDraining();
  state_->core.WaitUntilIdle(deadline);
  if (state_->heartbeat != nullptr) {
    for (const char* name : {kTextPool, kGrpc, kHttp}) state_->heartbeat->Forget(name);
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
