// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.GenerationService: one GenerationStream per call. Any of gRPC's threads.
#pragma once

#include <memory>

#include "dunlin/v1/generation.grpc.pb.h"
#include "server/fronts/dunlin_v1/translators.h"
#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/generation_stream.h"

namespace dunlin::server {

class GenerationService final
    : public v1::GenerationService::WithRawCallbackMethod_Generate<v1::GenerationService::Service> {
 public:
  // core outlives the service.
  explicit GenerationService(ServingCore* core) : admission_(core) {}

 private:
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return GenerationStream::Start(generate_, context, *request);
  }

  const CallAdmission admission_;
  const GenerationMethod generate_ = {&admission_, "/dunlin.v1.GenerationService/Generate",
                                      [] { return std::make_unique<GenerateTranslator>(); }};
};

}  // namespace dunlin::server
