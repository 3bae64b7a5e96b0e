// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/neighbour.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTokens = 600;
constexpr auto kBusyPause = std::chrono::milliseconds(20);

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  request.set_model("demo");
  request.set_text("The people of the coast");
  request.mutable_sampling()->set_seed(29);
  request.mutable_sampling()->set_temperature(0.9F);
  request.mutable_output()->set_logprobs(1);
  request.mutable_stopping()->set_max_tokens(kTokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

}  // namespace

Neighbour::Neighbour(const std::string& address) : stub_(v1::GenerationService::NewStub(Connect(address))) {
  alone_ = RunStream();
  EXPECT_NE(alone_, "");
}

Neighbour::~Neighbour() {
  Stop();
}

void Neighbour::Start() {
  has_token_ = false;
  stop_ = false;
  num_streams_ = 0;
  num_refused_ = 0;
  longest_gap_ms_ = 0;
  thread_ = std::thread([this] { Run(); });
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (!has_token_ && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(has_token_);
}

void Neighbour::Stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();
}

void Neighbour::Run() {
  do {
    const std::string seen = RunStream();
    if (seen.empty()) {
      std::this_thread::sleep_for(kBusyPause);
      continue;
    }
    EXPECT_EQ(seen, alone_) << "the neighbour's stream is not what it was alone";
  } while (!stop_);
}

std::string Neighbour::RunStream() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub_->Generate(&context, Request());
  v1::GenerateResponse all;
  v1::GenerateResponse message;
  auto last = Clock::now();
  while (reader->Read(&message)) {
    has_token_ = has_token_ || message.token_ids_size() > 0;
    const auto now = Clock::now();
    const auto gap = std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count();
    longest_gap_ms_ = std::max<int64_t>(longest_gap_ms_, gap);
    last = now;
    all.set_text_delta(all.text_delta() + message.text_delta());
    all.mutable_token_ids()->MergeFrom(message.token_ids());
    all.mutable_logprobs()->MergeFrom(message.logprobs());
  }
  const grpc::Status status = reader->Finish();
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && all.token_ids_size() == 0) {
    ++num_refused_;
    return "";
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(all.token_ids_size(), kTokens);
  ++num_streams_;
  return all.SerializeAsString();
}

}  // namespace dunlin::integration
