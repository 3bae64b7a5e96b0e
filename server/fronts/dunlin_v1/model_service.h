// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.ModelService: the served models, and every profile with the reasons why it is not supported. Reads constant
// tables of a few rows, so it answers on gRPC's own thread, even while the server is full, not ready or draining.
#pragma once

#include "dunlin/v1/model.grpc.pb.h"
#include "server/models/repository.h"

namespace dunlin::server {

class ModelService final : public v1::ModelService::WithRawCallbackMethod_ListModels<
                               v1::ModelService::WithRawCallbackMethod_GetModel<v1::ModelService::Service>> {
 public:
  // repository outlives the service.
  explicit ModelService(const ModelRepository& repository) : repository_(repository) {}

 private:
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

  const ModelRepository& repository_;
};

}  // namespace dunlin::server
