// SPDX-License-Identifier: Apache-2.0
#include "server/access/permissions.h"

#include <algorithm>
#include <iterator>

namespace dunlin::server {
namespace {

constexpr std::optional<Permission> kOpen = std::nullopt;

constexpr Endpoint kEndpoints[] = {
    {"/dunlin.v1.GenerationService/Generate", Permission::kInfer},
    {"/dunlin.v1.EmbeddingService/Embed", Permission::kInfer},
    {"/dunlin.v1.EmbeddingService/Rerank", Permission::kInfer},
    {"/dunlin.v1.ModelService/ListModels", Permission::kInfer},
    {"/dunlin.v1.ModelService/GetModel", Permission::kInfer},
    {"/dunlin.v1.TokenizerService/Tokenize", Permission::kInfer},
    {"/dunlin.v1.TokenizerService/Detokenize", Permission::kInfer},
    {"/dunlin.v1.TokenizerService/ApplyChatTemplate", Permission::kInfer},
    {"/inference.GRPCInferenceService/ServerLive", kOpen},
    {"/inference.GRPCInferenceService/ServerReady", kOpen},
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
    {"/vllm.grpc.engine.VllmEngine/Generate", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/Embed", Permission::kInfer},
    {"/vllm.grpc.engine.VllmEngine/HealthCheck", kOpen},
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
    // Probes have no key. A model's health is told to keys that may use the model.
    {"/grpc.health.v1.Health/Check", kOpen},
    {"/grpc.health.v1.Health/Watch", kOpen},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Permission::kInfer},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Permission::kInfer},

    {"GET /healthz", kOpen},
    {"GET /readyz", kOpen},
    {"GET /health", kOpen},
    {"GET /metrics", Permission::kMetrics},
    {"GET /v2/health/live", kOpen},
    {"GET /v2/health/ready", kOpen},
    {"GET /v2", Permission::kInfer},
    {"GET /v2/models/{path}", Permission::kInfer},
    {"POST /v2/models/{path}", Permission::kInfer},
    {"POST /v2/repository/index", Permission::kInfer},
    {"POST /v2/repository/models/{path}", Permission::kAdmin},
    {"GET /version", Permission::kInfer},
    {"GET /v1/models", Permission::kInfer},
    {"GET /v1/models/{id}", Permission::kInfer},
    {"POST /v1/chat/completions", Permission::kInfer},
    {"POST /v1/completions", Permission::kInfer},
    {"POST /v1/responses", Permission::kInfer},
    {"POST /v1/messages", Permission::kInfer},
    {"POST /v1/messages/count_tokens", Permission::kInfer},
    {"POST /v1/embeddings", Permission::kInfer},
    {"POST /v1/rerank", Permission::kInfer},
    {"POST /rerank", Permission::kInfer},
    {"POST /v2/rerank", Permission::kInfer},
    {"POST /tokenize", Permission::kInfer},
    {"POST /detokenize", Permission::kInfer},
};

}  // namespace

std::span<const Endpoint> Endpoints() {
  return kEndpoints;
}

const Endpoint* FindEndpoint(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kEndpoints), std::end(kEndpoints),
                                         [name](const Endpoint& endpoint) { return name == endpoint.name; });
  return found == std::end(kEndpoints) ? nullptr : found;
}

}  // namespace dunlin::server
