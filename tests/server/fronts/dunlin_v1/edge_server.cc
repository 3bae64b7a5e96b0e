// SPDX-License-Identifier: Apache-2.0
#include "tests/server/fronts/dunlin_v1/edge_server.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <string>

namespace dunlin::server {

EdgeServer::EdgeServer(EdgeServerOptions options)
    : models_(options.engine),
      credentials_(options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials()) {
  const absl::StatusOr<int> port =
      server_.Start("127.0.0.1:0", options.limits, &models_.repository(), &observer_, options.server);
  EXPECT_TRUE(port.ok()) << port.status();
  port_ = port.value_or(0);
  if (options.serving) server_.SetServing(true);
  channel_ = NewChannel();
}

EdgeServer::~EdgeServer() {
  control().held = false;
  server_.Shutdown(absl::Now() + absl::Seconds(5));
}

std::shared_ptr<grpc::Channel> EdgeServer::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address(), credentials_, arguments);
}

Reply EdgeServer::Generate(const v1::GenerateRequest& request, const Setup& setup) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  if (setup) setup(&context);
  const auto reader = stub()->Generate(&context, request);
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  return reply;
}

void ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, grpc::ClientContext* context, Reply* reply) {
  v1::GenerateResponse message;
  while (reader->Read(&message)) Take(message, reply);
  reply->status = reader->Finish();
  reply->details.ParseFromString(reply->status.error_details());
  for (const auto& [key, value] : context->GetServerInitialMetadata()) {
    reply->initial_metadata.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  for (const auto& [key, value] : context->GetServerTrailingMetadata()) {
    reply->trailing_metadata.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
}

void Take(const v1::GenerateResponse& message, Reply* reply) {
  reply->messages.push_back(message);
  Reply::Output& output = reply->outputs[message.index()];
  output.text += message.text_delta();
  output.token_ids.insert(output.token_ids.end(), message.token_ids().begin(), message.token_ids().end());
  for (const v1::TokenLogprob& logprob : message.logprobs()) {
    output.logprobs.push_back(logprob.logprob());
    output.num_top.push_back(logprob.top_size());
  }
  reply->prompt_logprobs.insert(reply->prompt_logprobs.end(), message.prompt_logprobs().begin(),
                                message.prompt_logprobs().end());
  if (!message.has_finish()) return;
  ++output.num_finishes;
  output.finish = message.finish();
}

v1::GenerateRequest TextRequest(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_model("tiny");
  request.set_text(text);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

}  // namespace dunlin::server
