// dunlin.v1.GenerationService: hands each call to a GenerateStream. Any of gRPC's threads.
#pragma once

#include "dunlin/v1/generation.grpc.pb.h"
#include "server/grpc/edge.h"
#include "server/grpc/generate_stream.h"

namespace dunlin::server {

class GenerationService final
    : public v1::GenerationService::WithRawCallbackMethod_Generate<v1::GenerationService::Service> {
 public:
  // edge outlives the service.
  explicit GenerationService(const Edge& edge) : edge_(edge) {}

 private:
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return GenerateStream::Start(edge_, context, *request);
  }

  const Edge& edge_;
};

}  // namespace dunlin::server
