// dunlin.v1.EmbeddingService: hands each call to an EmbedCall. Any of gRPC's threads.
#pragma once

#include "dunlin/v1/embedding.grpc.pb.h"
#include "server/grpc/edge.h"
#include "server/grpc/embed_call.h"

namespace dunlin::server {

class EmbeddingService final : public v1::EmbeddingService::WithRawCallbackMethod_Embed<v1::EmbeddingService::Service> {
 public:
  // edge outlives the service.
  explicit EmbeddingService(const Edge& edge) : edge_(edge) {}

 private:
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override {
    return EmbedCall::Start(edge_, context, *request, response);
  }

  const Edge& edge_;
};

}  // namespace dunlin::server
