// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/front.h"

#include "server/fronts/dunlin_v1/embedding_service.h"
#include "server/fronts/dunlin_v1/generation_service.h"
#include "server/fronts/dunlin_v1/model_service.h"
#include "server/fronts/dunlin_v1/tokenizer_service.h"
#include "server/transport/grpc/grpc_server.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kEndpoints[] = {
    {"/dunlin.v1.GenerationService/Generate", Permission::kInfer},
    {"/dunlin.v1.EmbeddingService/Embed", Permission::kInfer},
    {"/dunlin.v1.EmbeddingService/Rerank", Permission::kInfer},
    {"/dunlin.v1.ModelService/ListModels", Permission::kInfer},
    {"/dunlin.v1.ModelService/GetModel", Permission::kInfer},
    {"/dunlin.v1.ModelService/LoadModel", Permission::kAdmin},
    {"/dunlin.v1.ModelService/UnloadModel", Permission::kAdmin},
    {"/dunlin.v1.ModelService/ReloadModel", Permission::kAdmin},
    {"/dunlin.v1.ModelService/LoadAdapter", Permission::kAdmin},
    {"/dunlin.v1.ModelService/UnloadAdapter", Permission::kAdmin},
    {"/dunlin.v1.TokenizerService/Tokenize", Permission::kInfer},
    {"/dunlin.v1.TokenizerService/Detokenize", Permission::kInfer},
    {"/dunlin.v1.TokenizerService/ApplyChatTemplate", Permission::kInfer},
};

class DunlinV1Front final : public Front {
 public:
  explicit DunlinV1Front(ServingCore* core) : generation_(core), embedding_(core), models_(core), tokenizer_(core) {}

  void AddServices(std::vector<GrpcService>* services) override {
    services->push_back({&generation_, v1::GenerationService::service_full_name()});
    services->push_back({&embedding_, v1::EmbeddingService::service_full_name()});
    services->push_back({&models_, v1::ModelService::service_full_name()});
    services->push_back({&tokenizer_, v1::TokenizerService::service_full_name()});
  }

 private:
  GenerationService generation_;
  EmbeddingService embedding_;
  ModelService models_;
  TokenizerService tokenizer_;
};

}  // namespace

const FrontRow kDunlinV1Front = {"dunlin_v1", nullptr, kEndpoints,
                                 [](const FrontSources& sources) -> std::unique_ptr<Front> {
                                   return std::make_unique<DunlinV1Front>(sources.core);
                                 }};

}  // namespace dunlin::server
