// dunlin.v1.TokenizerService: the model's own tokenizer, on the text pool, under the same admission as Generate.
#pragma once

#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "server/grpc/edge.h"

namespace dunlin::server {

class TokenizerService final
    : public v1::TokenizerService::WithRawCallbackMethod_Tokenize<
          v1::TokenizerService::WithRawCallbackMethod_Detokenize<v1::TokenizerService::Service>> {
 public:
  // edge outlives the service.
  explicit TokenizerService(const Edge& edge) : edge_(edge) {}

 private:
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

  const Edge& edge_;
};

}  // namespace dunlin::server
