// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.TokenizerService: the model's own tokenizer and chat template, on the text pool, under the same admission
// as Generate.
#pragma once

#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "server/grpc_calls/call_admission.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

class TokenizerService final
    : public v1::TokenizerService::WithRawCallbackMethod_Tokenize<
          v1::TokenizerService::WithRawCallbackMethod_Detokenize<
              v1::TokenizerService::WithRawCallbackMethod_ApplyChatTemplate<v1::TokenizerService::Service>>> {
 public:
  // core outlives the service.
  explicit TokenizerService(ServingCore* core) : admission_(core) {}

 private:
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ApplyChatTemplate(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) override;

  const CallAdmission admission_;
};

}  // namespace dunlin::server
