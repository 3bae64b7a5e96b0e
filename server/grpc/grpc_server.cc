#include "server/grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/grpc/edge.h"
#include "server/grpc/embedding_service.h"
#include "server/grpc/generation_service.h"
#include "server/grpc/health_service.h"
#include "server/grpc/idle_ticker.h"
#include "server/grpc/listen_options.h"
#include "server/grpc/model_service.h"
#include "server/grpc/reflection_service.h"
#include "server/grpc/stall_watch.h"
#include "server/grpc/tokenizer_service.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kNsPerMs = 1'000'000;
constexpr auto kCloseGrace = std::chrono::seconds(1);  // for statuses on their way, once every engine has stopped

std::vector<std::string> ServiceNames(bool reflection) {
  std::vector<std::string> names = {v1::GenerationService::service_full_name(),
                                    v1::EmbeddingService::service_full_name(), v1::ModelService::service_full_name(),
                                    v1::TokenizerService::service_full_name(),
                                    grpc::health::v1::Health::service_full_name()};
  if (reflection) {
    names.emplace_back(ReflectionV1::Service::service_full_name());
    names.emplace_back(ReflectionV1Alpha::Service::service_full_name());
  }
  return names;
}

}  // namespace

struct GrpcServer::State {
  State(const Limits& limits, const ModelRegistry& registry, RequestObserver* observer,
        const GrpcServerOptions& options, bool with_reflection)
      : admission(limits),
        text_pool(options.text_threads),
        stall_watch(options.stalled_reader_ms * kNsPerMs),
        door_answers(admission),
        edge{limits,     &registry,    observer,      options.clock, &admission,
             &text_pool, &stall_watch, &door_answers, &pressure},
        health(ServiceNames(with_reflection)),
        generation(edge),
        embedding(edge),
        models(registry),
        tokenizer(edge),
        reflection_v1(ServiceNames(with_reflection)),
        reflection_v1alpha(ServiceNames(with_reflection)) {}

  Admission admission;
  TextPool text_pool;
  StallWatch stall_watch;
  const DoorAnswers door_answers;
  Pressure pressure;
  Edge edge;
  HealthService health;
  GenerationService generation;
  EmbeddingService embedding;
  ModelService models;
  TokenizerService tokenizer;
  ReflectionService<ReflectionV1> reflection_v1;
  ReflectionService<ReflectionV1Alpha> reflection_v1alpha;
  std::unique_ptr<grpc::Server> server;     // null once shut down
  std::unique_ptr<IdleTicker> idle_ticker;  // while the server is up
};

GrpcServer::GrpcServer() = default;
GrpcServer::~GrpcServer() {
  Shutdown(absl::InfinitePast());
}

absl::StatusOr<int> GrpcServer::Start(const std::string& address, const Limits& limits, const ModelRegistry& registry,
                                      RequestObserver* observer, const GrpcServerOptions& options) {
  if (options.text_threads < 1 || options.text_threads > 64) {
    return absl::InvalidArgumentError(absl::StrCat("text_threads is ", options.text_threads, "; limit is [1, 64]"));
  }
  grpc::EnableDefaultHealthCheckService(false);
  // protobuf writes a line to stderr for every string that is not UTF-8: the client's to cause, and told to the client.
  google::protobuf::SetLogHandler(nullptr);

  const bool reflection = options.reflection.value_or(IsLoopback(address));
  auto state = std::make_unique<State>(limits, registry, observer, options, reflection);
  grpc::ServerBuilder builder;
  ApplyLimits(limits, &builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&state->health);
  builder.RegisterService(&state->generation);
  builder.RegisterService(&state->embedding);
  builder.RegisterService(&state->models);
  builder.RegisterService(&state->tokenizer);
  if (reflection) {
    builder.RegisterService(&state->reflection_v1);
    builder.RegisterService(&state->reflection_v1alpha);
  }
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) return absl::UnavailableError(absl::StrCat("listen.grpc: cannot listen on ", address));
  state->idle_ticker =
      std::make_unique<IdleTicker>(state->server->InProcessChannel(grpc::ChannelArguments()),
                                   [watch = &state->stall_watch, clock = options.clock] { watch->Sweep(clock()); });
  state_ = std::move(state);
  return port;
}

void GrpcServer::SetServing(bool serving) {
  if (serving) state_->admission.Open();
  state_->health.SetServing(serving);
}

void GrpcServer::StartDraining() {
  state_->health.StopServing();
  state_->admission.Close();
}

void GrpcServer::Shutdown(absl::Time deadline) {
  if (state_ == nullptr || state_->server == nullptr) return;
  StartDraining();
  state_->admission.WaitUntilIdle(deadline);
  // Also when all is idle: once the engine threads have joined, none of them is inside the text pool any more.
  for (const auto& model : state_->edge.registry->models()) model->any_engine()->Stop();
  state_->idle_ticker.reset();
  state_->health.Shutdown();
  state_->server->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  state_->server->Wait();
  // gRPC and the engines are done; the text pool may still be in the last tasks.
  state_->admission.WaitUntilIdle(absl::InfiniteFuture());
  state_->server.reset();
}

AdmissionStats GrpcServer::admission_stats() const {
  return state_->admission.stats();
}

}  // namespace dunlin::server
