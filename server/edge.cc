// SPDX-License-Identifier: Apache-2.0
#include "server/edge.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/fronts/dunlin_v1/embedding_service.h"
#include "server/fronts/dunlin_v1/generation_service.h"
#include "server/fronts/dunlin_v1/model_service.h"
#include "server/fronts/dunlin_v1/tokenizer_service.h"
#include "server/transport/grpc/grpc_server.h"

namespace dunlin::server {

// Members are constructed in this order and destroyed in reverse.
struct Edge::State {
  State(const Limits& limits, ModelRepository* served, RequestObserver* observer, const ServingOptions& options)
      : repository(served),
        core(limits, *served, observer, options),
        generation(&core),
        embedding(&core),
        models(*served),
        tokenizer(&core) {}

  ModelRepository* const repository;
  ServingCore core;
  GenerationService generation;
  EmbeddingService embedding;
  ModelService models;
  TokenizerService tokenizer;
  bool shut_down = false;
  GrpcServer grpc;
};

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
  auto state = std::make_unique<State>(limits, repository, observer, options.serving);
  const std::vector<GrpcService> services = {
      {&state->generation, v1::GenerationService::service_full_name()},
      {&state->embedding, v1::EmbeddingService::service_full_name()},
      {&state->models, v1::ModelService::service_full_name()},
      {&state->tokenizer, v1::TokenizerService::service_full_name()},
  };
  const GrpcServerOptions grpc = {limits, options.reflection, repository, [core = &state->core] { core->Tick(); }};
  absl::StatusOr<int> port = state->grpc.Start(grpc_address, services, grpc);
  if (port.ok()) state_ = std::move(state);
  return port;
}

void Edge::SetServing(bool serving) {
  if (serving) state_->core.Open();
  state_->grpc.SetServing(serving);
}

void Edge::StartDraining() {
  state_->grpc.StopServing();
  state_->core.StartDraining();
}

void Edge::Shutdown(absl::Time deadline) {
  if (state_ == nullptr || std::exchange(state_->shut_down, true)) return;
  StartDraining();
  state_->core.WaitUntilIdle(deadline);
  // Needed even when everything is idle: once the engine threads have joined, none of them is inside the text pool.
  state_->repository->StopEngines();
  state_->grpc.Shutdown();
  // gRPC and the engines have stopped; the text pool may still be running its last tasks.
  state_->core.WaitUntilIdle(absl::InfiniteFuture());
}

AdmissionStats Edge::admission_stats() const {
  return state_->core.admission_stats();
}

}  // namespace dunlin::server
