// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/front.h"

#include <string>

#include "server/fronts/vllm/control_service.h"
#include "server/fronts/vllm/inference_service.h"
#include "server/transport/grpc/grpc_server.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"/vllm.Inference/Generate", Permission::kInfer},
    {"/vllm.Inference/GenerateStream", Permission::kInfer},
    {"/vllm.Control/GetServerInfo", Permission::kInfer},
    {"/vllm.Control/GetModelInfo", Permission::kInfer},
    {"/vllm.Control/Abort", Permission::kInfer},
    {"/vllm.Control/ListLoras", Permission::kInfer},
    {"/vllm.Control/GetKvEventSources", Permission::kInfer},
    {"/vllm.Control/IsPaused", Permission::kInfer},
    {"/vllm.Control/IsSleeping", Permission::kInfer},
    {"/vllm.Control/GetWeightVersion", Permission::kInfer},
    // What changes the server for everybody.
    {"/vllm.Control/Shutdown", Permission::kAdmin},
    {"/vllm.Control/LoadLora", Permission::kAdmin},
    {"/vllm.Control/UnloadLora", Permission::kAdmin},
    {"/vllm.Control/PauseGeneration", Permission::kAdmin},
    {"/vllm.Control/ResumeGeneration", Permission::kAdmin},
    {"/vllm.Control/Sleep", Permission::kAdmin},
    {"/vllm.Control/WakeUp", Permission::kAdmin},
    {"/vllm.Control/InitWeightTransferEngine", Permission::kAdmin},
    {"/vllm.Control/StartWeightUpdate", Permission::kAdmin},
    {"/vllm.Control/StartDraftWeightUpdate", Permission::kAdmin},
    {"/vllm.Control/UpdateWeights", Permission::kAdmin},
    {"/vllm.Control/FinishWeightUpdate", Permission::kAdmin},
    {"/vllm.Control/UpdateWeightVersion", Permission::kAdmin},
};

// What Control asks of the rest of the server.
VllmControlSources ControlSources(const FrontSources& sources, RunningCalls* running) {
  const auto abort = [running](const std::string& request_id, const Principal& caller) {
    running->Cancel(request_id, caller);
  };
  return {abort, sources.version, sources.shut_down, sources.kv_event_source};
}

class VllmFront final : public Front {
 public:
  explicit VllmFront(const FrontSources& sources)
      : inference_(sources.core), control_(sources.core, ControlSources(sources, inference_.running())) {}

  void AddServices(std::vector<GrpcService>* services) override {
    services->push_back({&inference_, ::vllm::Inference::service_full_name()});
    services->push_back({&control_, ::vllm::Control::service_full_name()});
  }

 private:
  VllmInferenceService inference_;
  VllmControlService control_;
};

}  // namespace

const FrontRow kVllmFront = {
    "vllm", "protocols.vllm", kEndpoints,
    [](const FrontSources& sources) -> std::unique_ptr<Front> { return std::make_unique<VllmFront>(sources); }};

}  // namespace dunlin::server
