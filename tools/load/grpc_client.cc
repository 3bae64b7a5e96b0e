// SPDX-License-Identifier: Apache-2.0
#include "tools/load/grpc_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dunlin::tools::load {
namespace {

// Slightly below Dunlin's default limits.max_streams_per_connection, 100: a finished stream counts a little longer.
constexpr int64_t kRequestsPerChannel = 90;
constexpr int kMaxChannels = 1024;

std::string CodeName(const grpc::Status& status) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
}

struct Details {
  std::string reason;  // of google.rpc.ErrorInfo; "" without one
  bool retry_info = false;
};

Details DetailsOf(const grpc::Status& status) {
  Details details;
  google::rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) return details;
  for (const auto& any : wire.details()) {
    google::rpc::ErrorInfo info;
    if (any.Is<google::rpc::ErrorInfo>() && any.UnpackTo(&info)) details.reason = info.reason();
    if (any.Is<google::rpc::RetryInfo>()) details.retry_info = true;
  }
  return details;
}

// A refusal is deliberate and comes before any token. Both codes also stand for failures, but those of a broken
// connection carry no ErrorInfo, and a stream that breaks has begun.
bool IsRefusal(const grpc::Status& status, const Details& details, bool began) {
  if (began) return false;
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) return true;
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !details.reason.empty();
}

class GrpcRequest final : public ActiveRequest, public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  // Keeps itself alive until OnDone; the caller holds it until its Call has ended.
  static std::shared_ptr<GrpcRequest> Start(v1::GenerationService::Stub* stub, const v1::GenerateRequest& message,
                                            int64_t timeout_ms, std::shared_ptr<Call> call) {
    auto request = std::make_shared<GrpcRequest>(std::move(call));
    request->self_ = request;
    if (timeout_ms > 0) {
      request->context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    }
    request->call_->OnSent();
    stub->async()->Generate(&request->context_, &message, request.get());
    request->StartRead(&request->response_);
    request->StartCall();
    return request;
  }

  explicit GrpcRequest(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.token_ids_size() > 0 && !call_->OnTokens(response_.token_ids_size())) context_.TryCancel();
    if (response_.has_finish()) {
      const v1::Finish& finish = response_.finish();
      call_->SetUsage(finish.usage().prompt_tokens(), finish.usage().completion_tokens());
      call_->SetEngineMs(finish.timings().total_ms() - finish.timings().queue_ms());
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    // The runner holds this request until it ends and releases it on its own thread. Released here, it
    // could destroy its channel, whose destructor waits for this thread.
    const std::shared_ptr<Call> call = call_;
    self_.reset();
    if (status.ok()) return call->Complete();
    const Details details = DetailsOf(status);
    const std::string reason = details.reason.empty() ? CodeName(status) : details.reason;
    Ending ending = Ending::kFailed;
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) ending = Ending::kDeadline;
    if (IsRefusal(status, details, call->output_tokens() > 0)) ending = Ending::kRefused;
    call->End(ending, reason, CodeName(status) + ": " + status.error_message(), details.retry_info);
  }

  const std::shared_ptr<Call> call_;
  std::shared_ptr<GrpcRequest> self_;  // held for gRPC from Start to OnDone
  grpc::ClientContext context_;
  v1::GenerateResponse response_;  // of the pending read
};

class GrpcClient final : public LoadClient {
 public:
  GrpcClient(const std::string& address, const RequestOptions& options) : address_(address), options_(options) {}

  absl::Status OpenChannels(int64_t expected_requests) {
    const auto wanted = static_cast<int>(std::min<int64_t>(
        kMaxChannels, std::max<int64_t>(1, (expected_requests + kRequestsPerChannel - 1) / kRequestsPerChannel)));
    const int num_channels = options_.num_channels > 0 ? options_.num_channels : wanted;
    for (int i = 0; i < num_channels; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // otherwise channels to one address share a connection
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // a retry would hide a refusal
      arguments.SetMaxReceiveMessageSize(-1);
      absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
          OpenChannel(address_, options_.tls, options_.api_key, arguments);
      if (!channel.ok()) return channel.status();
      channels_.push_back(*std::move(channel));
      stubs_.push_back(v1::GenerationService::NewStub(channels_.back()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Target> Connect(int64_t timeout_ms) override {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms);
    for (const auto& channel : channels_) channel->GetState(/*try_to_connect=*/true);
    for (const auto& channel : channels_) {
      if (!channel->WaitForConnected(deadline))
        return absl::UnavailableError("--address: no connection to " + address_);
    }
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::GetModelRequest request;
    request.set_name(options_.model);
    v1::GetModelResponse response;
    const grpc::Status status = v1::ModelService::NewStub(channels_[0])->GetModel(&context, request, &response);
    if (!status.ok()) return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    return Target{response.model().vocab_size()};
  }

  std::shared_ptr<ActiveRequest> Start(const Prompt& prompt, const MixEntry& profile, uint64_t seed,
                                       std::shared_ptr<Call> call) override {
    v1::GenerateRequest message;
    message.set_model(options_.model);
    if (options_.chat) {
      v1::ChatMessage* user = message.mutable_chat()->add_messages();
      user->set_role("user");
      user->set_content(prompt.text);
    } else if (prompt.token_ids.empty()) {
      message.set_text(prompt.text);
    } else {
      message.mutable_token_ids()->mutable_ids()->Add(prompt.token_ids.begin(), prompt.token_ids.end());
    }
    message.mutable_sampling()->set_temperature(options_.temperature);
    message.mutable_sampling()->set_seed(seed);
    message.mutable_stopping()->set_max_tokens(prompt.max_tokens);
    message.mutable_stopping()->set_ignore_eos(prompt.ignore_eos);
    message.mutable_execution()->set_attention_backend(profile.attention_backend);
    message.mutable_execution()->set_precision(profile.precision);
    message.mutable_execution()->set_allow_fallback(options_.allow_fallback);
    message.mutable_execution()->set_speculation(options_.speculation);
    message.mutable_output()->set_omit_text(options_.omit_text);
    v1::GenerationService::Stub* stub = stubs_[next_channel_].get();
    next_channel_ = (next_channel_ + 1) % stubs_.size();
    return GrpcRequest::Start(stub, message, options_.timeout_ms, std::move(call));
  }

 private:
  const std::string address_;
  const RequestOptions options_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs_;  // one for each channel
  size_t next_channel_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadClient>> MakeGrpcClient(const std::string& address, const RequestOptions& options,
                                                           int64_t expected_requests) {
  auto client = std::make_unique<GrpcClient>(address, options);
  if (absl::Status status = client->OpenChannels(expected_requests); !status.ok()) return status;
  return client;
}

}  // namespace dunlin::tools::load
