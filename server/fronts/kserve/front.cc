// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/front.h"

#include <iterator>
#include <utility>

#include "server/fronts/kserve/inference_service.h"
#include "server/fronts/kserve/kserve_routes.h"
#include "server/fronts/kserve/model_statistics.h"
#include "server/transport/grpc/grpc_server.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"/inference.GRPCInferenceService/ServerLive", kOpenToAll},
    {"/inference.GRPCInferenceService/ServerReady", kOpenToAll},
    {"/inference.GRPCInferenceService/ModelReady", Permission::kInfer},
    {"/inference.GRPCInferenceService/ServerMetadata", Permission::kInfer},
    {"/inference.GRPCInferenceService/ModelMetadata", Permission::kInfer},
    {"/inference.GRPCInferenceService/ModelInfer", Permission::kInfer},
    {"/inference.GRPCInferenceService/ModelStreamInfer", Permission::kInfer},
    {"/inference.GRPCInferenceService/ModelConfig", Permission::kInfer},
    {"/inference.GRPCInferenceService/ModelStatistics", Permission::kInfer},
    {"/inference.GRPCInferenceService/RepositoryIndex", Permission::kInfer},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", Permission::kAdmin},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", Permission::kAdmin},
    {"/inference.GRPCInferenceService/TraceSetting", Permission::kAdmin},
    {"/inference.GRPCInferenceService/LogSettings", Permission::kAdmin},
    {"GET /v2/health/live", kOpenToAll},
    {"GET /v2/health/ready", kOpenToAll},
    {"GET /v2", Permission::kInfer},
    {"GET /v2/models/{path}", Permission::kInfer},
    {"POST /v2/models/{path}", Permission::kInfer},
    {"POST /v2/repository/index", Permission::kInfer},
    {"POST /v2/repository/models/{path}", Permission::kAdmin},
};

class KserveFront final : public Front {
 public:
  // statistics: what kKserveFront.observe made.
  KserveFront(const FrontSources& sources, const kserve::ModelStatistics* statistics)
      : core_(sources.core),
        statistics_(statistics),
        version_(sources.version),
        service_(sources.core, statistics, sources.version) {}

  void AddServices(std::vector<GrpcService>* services) override {
    services->push_back({&service_, inference::GRPCInferenceService::service_full_name()});
  }
  void AddRoutes(std::vector<HttpRoute>* routes) override {
    std::vector<HttpRoute> own = kserve::KserveRoutes(core_, statistics_, version_);
    std::move(own.begin(), own.end(), std::back_inserter(*routes));
  }

 private:
  ServingCore* const core_;
  const kserve::ModelStatistics* const statistics_;
  const std::string version_;
  kserve::InferenceService service_;
};

std::unique_ptr<Front> MakeKserveFront(const FrontSources& sources) {
  return std::make_unique<KserveFront>(sources, static_cast<const kserve::ModelStatistics*>(sources.observer));
}

std::unique_ptr<RequestObserver> NewStatistics(const ModelRepository& models) {
  return std::make_unique<kserve::ModelStatistics>(models);
}

}  // namespace

const FrontRow kKserveFront = {"kserve", "protocols.kserve", kEndpoints, &MakeKserveFront, &NewStatistics};

}  // namespace dunlin::server
