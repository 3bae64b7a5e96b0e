// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/scripted_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace dunlin::integration {
namespace {

const absl::Duration kLongestWait = absl::Seconds(20);

}  // namespace

v1::GenerateResponse TextResponse(const std::string& text) {
  v1::GenerateResponse response;
  response.set_text_delta(text);
  response.add_token_ids(1);
  v1::Execution& execution = *response.mutable_execution();
  execution.set_device(v1::DEVICE_CPU);
  execution.set_attention_backend(v1::ATTENTION_BACKEND_FLASH);
  execution.set_precision(v1::PRECISION_BF16);
  return response;
}

v1::GenerateResponse ReasoningResponse(const std::string& text) {
  v1::GenerateResponse response = TextResponse("");
  response.set_reasoning_delta(text);
  return response;
}

Reply TextReply(const std::string& text) {
  v1::GenerateResponse finish;
  finish.mutable_finish()->set_reason(v1::FINISH_REASON_STOP);
  finish.mutable_finish()->mutable_usage()->set_completion_tokens(1);
  return {.responses = {TextResponse(text), finish}, .status = {}};
}

Reply CallReply(const std::string& id, const std::string& name, const std::string& arguments) {
  v1::GenerateResponse begin;
  v1::ToolCallDelta* call = begin.add_tool_call_delta();
  call->set_id(id);
  call->set_name(name);
  call->set_arguments_delta(arguments.substr(0, arguments.size() / 2));
  v1::GenerateResponse end;
  end.add_tool_call_delta()->set_arguments_delta(arguments.substr(arguments.size() / 2));
  end.mutable_finish()->set_reason(v1::FINISH_REASON_TOOL_CALLS);
  return {.responses = {begin, end}, .status = {}};
}

grpc::Status ScriptedServer::Generation::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                                  grpc::ServerWriter<v1::GenerateResponse>* writer) {
  Reply reply = {.responses = {}, .status = {grpc::StatusCode::UNAVAILABLE, "the script has ended"}};
  {
    const absl::MutexLock lock(&owner_.mutex_);
    owner_.requests_.push_back(*request);
    if (!owner_.replies_.empty()) {
      reply = std::move(owner_.replies_.front());
      owner_.replies_.pop_front();
    }
  }
  for (const v1::GenerateResponse& response : reply.responses) writer->Write(response);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (reply.until_cancelled && !context->IsCancelled() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (context->IsCancelled()) {
    const absl::MutexLock lock(&owner_.mutex_);
    ++owner_.num_cancelled_;
  }
  return reply.status;
}

grpc::Status ScriptedServer::Models::ListModels(grpc::ServerContext* /*context*/,
                                                const v1::ListModelsRequest* /*request*/,
                                                v1::ListModelsResponse* response) {
  for (const std::string& name : names_) {
    v1::Model* model = response->add_models();
    model->set_name(name);
    model->set_kind(name.rfind("encoder", 0) == 0 ? v1::MODEL_KIND_ENCODER : v1::MODEL_KIND_DECODER);
  }
  return grpc::Status::OK;
}

ScriptedServer::ScriptedServer(std::vector<std::string> models) : models_(std::move(models)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&generation_);
  builder.RegisterService(&models_);
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void ScriptedServer::Add(Reply reply) {
  const absl::MutexLock lock(&mutex_);
  replies_.push_back(std::move(reply));
}

std::vector<v1::GenerateRequest> ScriptedServer::requests() const {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

bool ScriptedServer::ComesToRequests(size_t count) const {
  const auto there = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return requests_.size() >= count; };
  const absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&there), kLongestWait);
}

bool ScriptedServer::ComesToCancelled(size_t count) const {
  const auto there = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_cancelled_ >= count; };
  const absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&there), kLongestWait);
}

}  // namespace dunlin::integration
