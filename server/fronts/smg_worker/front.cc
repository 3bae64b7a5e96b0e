// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/front.h"

#include "server/fronts/smg_worker/vllm_engine_service.h"
#include "server/transport/grpc/grpc_server.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"/vllm.grpc.engine.VllmEngine/Generate", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/Embed", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/HealthCheck", kOpenToAll},
    {"/vllm.grpc.engine.VllmEngine/FlushCache", Permission::kAdmin},
    {"/vllm.grpc.engine.VllmEngine/StartProfile", Permission::kAdmin},
    {"/vllm.grpc.engine.VllmEngine/StopProfile", Permission::kAdmin},
    {"/vllm.grpc.engine.VllmEngine/Abort", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/GetModelInfo", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/GetServerInfo", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/GetLoads", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/GetTokenizer", Permission::kInfer},
    // Its events hold the prompts of every caller.
    {"/vllm.grpc.engine.VllmEngine/SubscribeKvEvents", Permission::kAdmin},
};

class SmgWorkerFront final : public Front {
 public:
  explicit SmgWorkerFront(const FrontSources& sources)
      : service_(sources.core, sources.settings.Text("protocols.vllm_engine_model")) {}

  void AddServices(std::vector<GrpcService>* services) override {
    services->push_back({&service_, ::vllm::grpc::engine::VllmEngine::service_full_name()});
  }
  void SetServing(bool serving) override { service_.SetServing(serving); }
  void OnModelGone(const std::string& model) override { service_.OnModelGone(model); }
  void StartDraining() override { service_.StartDraining(); }

 private:
  VllmEngineService service_;
};

}  // namespace

const FrontRow kSmgWorkerFront = {
    "smg_worker", "protocols.vllm_engine", kEndpoints,
    [](const FrontSources& sources) -> std::unique_ptr<Front> { return std::make_unique<SmgWorkerFront>(sources); }};

}  // namespace dunlin::server
