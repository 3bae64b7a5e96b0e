// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.EmbeddingService: one EmbedCall per call. Any of gRPC's threads.
#pragma once

#include "dunlin/v1/embedding.grpc.pb.h"
#include "server/fronts/dunlin_v1/embed_call.h"

namespace dunlin::server {

class EmbeddingService final : public v1::EmbeddingService::WithRawCallbackMethod_Embed<v1::EmbeddingService::Service> {
 public:
  // core outlives the service.
  explicit EmbeddingService(ServingCore* core) : core_(core) {}

 private:
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return EmbedCall::Start(core_, context, *request, response);
  }

  ServingCore* const core_;
};

}  // namespace dunlin::server
