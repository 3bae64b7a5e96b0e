// SPDX-License-Identifier: Apache-2.0
// vllm.Inference: one call of server/grpc_calls per call. Any of gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/grpc_calls/call_admission.h"
#include "server/grpc_calls/generation_call.h"
#include "server/grpc_calls/running_calls.h"
#include "server/serving/core/serving_core.h"
#include "vllm/inference.grpc.pb.h"

namespace dunlin::server {

class VllmInferenceService final
    : public ::vllm::Inference::WithRawCallbackMethod_Generate<
          ::vllm::Inference::WithRawCallbackMethod_GenerateStream<::vllm::Inference::Service>> {
 public:
  // core outlives the service.
  explicit VllmInferenceService(ServingCore* core);

  // For Control.Abort.
  RunningCalls* running() { return &running_; }

 private:
  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateStream(grpc::CallbackServerContext* context,
                                                             const grpc::ByteBuffer* request) override;

  const CallAdmission admission_;
  RunningCalls running_;
  const GenerationMethod whole_;
  const GenerationMethod streamed_;
};

}  // namespace dunlin::server
