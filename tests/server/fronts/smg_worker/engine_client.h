// SPDX-License-Identifier: Apache-2.0
// A client of VllmEngine over the models of EdgeServer: "tiny" repeats its prompt.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "smg/vllm_engine.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {

namespace wire = ::vllm::grpc::engine;
namespace common = ::smg::grpc::common;

struct Deadline {
  Deadline() { context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30)); }
  grpc::ClientContext context;
};

struct EngineReply {
  std::vector<wire::GenerateStreamChunk> chunks;
  std::vector<wire::GenerateComplete> completes;
  grpc::Status status;
  bool has_request_id = false;  // in initial metadata

  // Of an output's chunks.
  std::vector<uint32_t> ids(uint32_t index = 0) const {
    std::vector<uint32_t> all;
    for (const auto& chunk : chunks) {
      if (chunk.index() == index) all.insert(all.end(), chunk.token_ids().begin(), chunk.token_ids().end());
    }
    return all;
  }
};

class EngineClient {
 public:
  explicit EngineClient(const EdgeServer& edge) : stub_(wire::VllmEngine::NewStub(edge.channel())) {}

  EngineReply Generate(const wire::GenerateRequest& request) const {
    Deadline call;
    const auto reader = stub_->Generate(&call.context, request);
    EngineReply reply;
    wire::GenerateResponse message;
    while (reader->Read(&message)) {
      if (message.has_chunk()) reply.chunks.push_back(message.chunk());
      if (message.has_complete()) reply.completes.push_back(message.complete());
    }
    reply.status = reader->Finish();
    reply.has_request_id = call.context.GetServerInitialMetadata().count("x-request-id") == 1;
    return reply;
  }

  // A unary method.
  template <class Request, class Response>
  grpc::Status Call(grpc::Status (wire::VllmEngine::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) const {
    Deadline call;
    return (stub_.get()->*method)(&call.context, request, response);
  }

  wire::VllmEngine::Stub* stub() const { return stub_.get(); }

 private:
  const std::unique_ptr<wire::VllmEngine::Stub> stub_;
};

// As the router sends it: token ids, a stream, greedy.
inline wire::GenerateRequest IdsRequest(const std::vector<uint32_t>& ids, uint32_t max_tokens) {
  wire::GenerateRequest request;
  request.mutable_tokenized()->mutable_input_ids()->Assign(ids.begin(), ids.end());
  request.set_stream(true);
  wire::SamplingParams* params = request.mutable_sampling_params();
  params->set_temperature(0.0F);
  params->set_top_p(1.0F);
  params->set_repetition_penalty(1.0F);
  params->set_n(1);
  params->set_skip_special_tokens(true);
  params->set_spaces_between_special_tokens(true);
  params->set_max_tokens(max_tokens);
  return request;
}

}  // namespace dunlin::server
