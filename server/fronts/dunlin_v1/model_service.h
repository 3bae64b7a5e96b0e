// SPDX-License-Identifier: Apache-2.0
// dunlin.v1.ModelService: the served models, and every profile with the reasons why it is not supported; loading and
// unloading, of LoRA adapters, too. Reads constant tables of a few rows, so it answers on gRPC's own thread, even while
// the server is full, loading or draining; changes are answered on the loader's.
#pragma once

#include "dunlin/v1/model.grpc.pb.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

class ModelService final
    : public v1::ModelService::WithRawCallbackMethod_ListModels<v1::ModelService::WithRawCallbackMethod_GetModel<
          v1::ModelService::WithRawCallbackMethod_LoadModel<v1::ModelService::WithRawCallbackMethod_UnloadModel<
              v1::ModelService::WithRawCallbackMethod_ReloadModel<v1::ModelService::WithRawCallbackMethod_LoadAdapter<
                  v1::ModelService::WithRawCallbackMethod_UnloadAdapter<v1::ModelService::Service>>>>>>> {
 public:
  // core outlives the service.
  explicit ModelService(const ServingCore* core) : core_(core) {}

 private:
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* UnloadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReloadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LoadAdapter(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* UnloadAdapter(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

  const ServingCore* const core_;
};

}  // namespace dunlin::server
