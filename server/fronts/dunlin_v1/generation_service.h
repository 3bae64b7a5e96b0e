// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.GenerationService: one GenerateCall per call. Any of gRPC's threads.
#pragma once

#include "dunlin/v1/generation.grpc.pb.h"
#include "server/fronts/dunlin_v1/admission_replies.h"
#include "server/fronts/dunlin_v1/generate_call.h"

namespace dunlin::server {

class GenerationService final
    : public v1::GenerationService::WithRawCallbackMethod_Generate<v1::GenerationService::Service> {
 public:
  // core outlives the service.
  explicit GenerationService(ServingCore* core) : core_(core), replies_(*core) {}

 private:
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    return GenerateCall::Start(core_, replies_, context, *request);
  }

  ServingCore* const core_;
  const AdmissionReplies replies_;
};

}  // namespace dunlin::server
