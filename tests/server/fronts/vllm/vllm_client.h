// SPDX-License-Identifier: Apache-2.0
// A client of vllm.Inference and vllm.Control for the Edge of tests/server/fronts/dunlin_v1/edge_server.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "vllm/control.grpc.pb.h"
#include "vllm/inference.grpc.pb.h"

namespace dunlin::server {

inline void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
}

inline std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status wire;
  google::rpc::ErrorInfo info;
  wire.ParseFromString(status.error_details());
  for (const auto& detail : wire.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

// One call of Control to its end.
template <class Request, class Response>
grpc::Status Control(const EdgeServer& edge,
                     grpc::Status (::vllm::Control::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, Response* response) {
  grpc::ClientContext context;
  SetDeadline(&context);
  ::vllm::Control::Stub stub(edge.channel());
  return (stub.*method)(&context, request, response);
}

// {model: "tiny", token_ids, max_new_tokens}, which gives back its ids.
inline ::vllm::GenerateRequest IdsRequest(int num_tokens, uint32_t max_new_tokens) {
  ::vllm::GenerateRequest request;
  request.set_model("tiny");
  for (int i = 0; i < num_tokens; ++i) request.mutable_token_ids()->add_ids(static_cast<uint32_t>(10 + i));
  request.mutable_stopping()->set_max_new_tokens(max_new_tokens);
  request.mutable_response()->set_output_token_ids(true);
  return request;
}

// A stream that the test reads by hand.
class VllmStream {
 public:
  VllmStream(const EdgeServer& edge, const ::vllm::GenerateRequest& request) : stub_(edge.channel()) {
    SetDeadline(&context_);
    reader_ = stub_.GenerateStream(&context_, request);
  }

  // The next message, added to output and prompt; false at the end.
  bool Read() {
    ::vllm::GenerateResponse message;
    if (!reader_->Read(&message)) return false;
    ++num_messages;
    if (message.has_prompt_info()) prompt = message.prompt_info();
    const ::vllm::SequenceOutput& output = message.outputs();
    text += output.text();
    ids.insert(ids.end(), output.token_ids().begin(), output.token_ids().end());
    if (output.has_finish_info()) finish = output.finish_info();
    last = std::move(message);
    return true;
  }
  bool ReadUntilToken() {
    while (ids.empty()) {
      if (!Read()) return false;
    }
    return true;
  }
  grpc::Status Rest() {
    while (Read()) {
    }
    return reader_->Finish();
  }
  void Cancel() { context_.TryCancel(); }

  ::vllm::PromptInfo prompt;
  std::string text;
  std::vector<uint32_t> ids;
  ::vllm::FinishInfo finish;
  ::vllm::GenerateResponse last;
  int num_messages = 0;

 private:
  grpc::ClientContext context_;
  ::vllm::Inference::Stub stub_;
  std::unique_ptr<grpc::ClientReader<::vllm::GenerateResponse>> reader_;
};

}  // namespace dunlin::server
