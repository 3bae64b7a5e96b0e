// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.EmbeddingService: one EmbedCall per call. Any of gRPC's threads.
#pragma once

#include <memory>

#include "dunlin/v1/embedding.grpc.pb.h"
#include "server/fronts/dunlin_v1/translators.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/embed_call.h"

namespace dunlin::server {

using RawEmbeddingService = v1::EmbeddingService::WithRawCallbackMethod_Embed<
    v1::EmbeddingService::WithRawCallbackMethod_Rerank<v1::EmbeddingService::Service>>;

class EmbeddingService final : public RawEmbeddingService {
 public:
  // core outlives the service.
  explicit EmbeddingService(ServingCore* core) : admission_(core) {}

 private:
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return EmbedCall::Start(embed_, context, *request, response);
  }

  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return EmbedCall::Start(rerank_, context, *request, response);
  }

  const CallAdmission admission_;
  const EmbedMethod embed_ = {&admission_, "/dunlin.v1.EmbeddingService/Embed",
                              [] { return std::make_unique<EmbedMessageTranslator>(); }};
  const EmbedMethod rerank_ = {&admission_, "/dunlin.v1.EmbeddingService/Rerank",
                               [] { return std::make_unique<RerankMessageTranslator>(); }};
};

}  // namespace dunlin::server
