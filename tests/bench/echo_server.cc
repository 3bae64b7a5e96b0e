// SPDX-License-Identifier: Apache-2.0
// The floor of an RPC: answers Generate on gRPC's thread with one empty token and no work. The latency that `dunlin
// load` measures here is that of the wire, gRPC and the load generator; what Dunlin adds is its edge. Prints READY
// grpc=ADDRESS, and exits when its standard input closes.
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <iostream>
#include <string>

#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"

namespace {

namespace v1 = dunlin::v1;

class OneToken final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  OneToken() {
    response_.add_token_ids(0);
    response_.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
    response_.mutable_finish()->mutable_usage()->set_completion_tokens(1);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  v1::GenerateResponse response_;
};

class EchoGeneration final : public v1::GenerationService::CallbackService {
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext*,
                                                           const v1::GenerateRequest*) override {
    return new OneToken;
  }
};

class EchoModel final : public v1::ModelService::CallbackService {
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest*,
                                     v1::GetModelResponse* response) override {
    response->mutable_model()->set_vocab_size(256);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main() {
  EchoGeneration generation;
  EchoModel model;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&generation);
  builder.RegisterService(&model);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::cout << "READY grpc=127.0.0.1:" << port << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  server->Shutdown();
  return 0;
}
